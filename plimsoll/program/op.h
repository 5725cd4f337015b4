// What ops mean. An OpDef says everything that is true of an op on every device: its operands and attributes, the shape
// and dtype rule, the gradient rule, what it does to memory, its cost, and its values in plain C++. Families of ops are
// in ops/<family>.cc, their values in reference/<family>.cc; the build finds both (docs/program.md shows how to add
// one).
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

class Gradient;  // autodiff.h
template <class T>
struct Run;  // evaluate.h

// One use of an op as its rules see it.
struct OpCall {
  const OpDef& def;
  std::span<const Type> inputs;
  std::span<const Attribute> attributes;
  std::span<const Type> outputs = {};  // not yet known to `infer`
  std::string_view label = {};         // name of the first output, for messages

  int arity() const { return static_cast<int>(inputs.size()); }
  const Type& input(int i) const { return inputs[static_cast<size_t>(i)]; }
  const Dims& shape(int i) const { return input(i).shape; }
  const Type& output(int k) const { return outputs[static_cast<size_t>(k)]; }

  // An attribute by name; the schema must have it with a fitting kind.
  const Attribute& attribute(std::string_view name) const;
  bool flag(std::string_view name) const { return attribute(name).flag(); }
  int64_t integer(std::string_view name) const { return attribute(name).dim().constant(); }
  double real(std::string_view name) const { return attribute(name).real(); }
  Dim dim(std::string_view name) const { return attribute(name).dim(); }
  const std::string& word(std::string_view name) const { return attribute(name).word(); }
  const Dims& dims(std::string_view name) const { return attribute(name).dims(); }

  // An integer attribute that names a dimension of input i, counted from the end when negative.
  int axis(std::string_view name, int i = 0) const;

  // ArgumentError "matmul %y: a is f32[13,19,29], b is f32[13,19,29]; <rule>". `rule` says what must hold and does not.
  [[noreturn]] void reject(std::string_view rule) const;
  void require(bool holds, std::string_view rule) const {
    if (!holds) reject(rule);
  }
  // Rules that most ops share.
  void require_floating(int i) const;
  void require_rank(int i, int rank) const;
  void require_same(int i, int j) const;  // dtype and shape
  void require_same_dtype(int i, int j) const;
};

// Output `output` is the new content of the storage of input `input`.
struct Overwrite {
  int output = 0;
  int input = 0;
};

// What is known of the sign of result 0.
enum class Sign : uint8_t {
  any,
  kept,          // no element is negative where no element of the operands is
  non_negative,  // no element is, whatever the operands are
};

// What an op with weights becomes when these are quantized to i8 (passes/quantize.h).
struct QuantizedForm {
  std::string op;                     // "linear_i8"
  int weights = 1;                    // the operand
  bool gathers = false;               // reads rows of the weights: no other operand is quantized
  bool image = false;                 // operand 0 is quantized as a whole, not by rows; attributes stay
  int64_t most_products = INT64_MAX;  // in one sum
};

// What passes ask of an op. The defaults are right for every op; a pass then does less with it. An attribute `axis`
// names the dimension that an op works along, for passes, too.
struct OpTraits {
  // Each element of result 0 depends on one element of each operand, as broadcast, and on attributes: of constants
  // the op makes a constant.
  bool elementwise = false;

  Sign sign = Sign::any;
  std::function<Sign(const OpCall&)> sign_of = nullptr;  // instead of `sign`, where attributes decide

  // Result 0 of a sample depends on the whole batch: its statistics.
  bool batch_statistics = false;

  // Draws random numbers by the seed in this operand. `by_sample`: the seed may be a pair, with the number of samples
  // that come before, so that a micro-batch draws what the whole batch would for its samples.
  struct Draws {
    int seed = 1;
    bool by_sample = false;
  };
  std::optional<Draws> draws = {};

  // Result 0 is a loss: a mean or a sum, as the attribute `reduction` says, over the elements of `targets` but for
  // those that equal the integer attribute `ignored`, where it is named.
  struct Loss {
    int targets = 1;
    std::string ignored = {};
  };
  std::optional<Loss> loss = {};

  // The elements of `operand` are indices, from 0 to the size of a dimension of operand `of`: the one that the
  // attribute `axis` names; where that is empty, the first.
  struct Indices {
    int operand = 1;
    int of = 0;
    std::string axis = {};
  };
  std::optional<Indices> indices = {};

  // An op (sum, operands..) that adds result 0 to a sum in place, without the result itself; result 1, where there is
  // one, is the sum over all rows of operand 0. Empty: none.
  std::string accumulate = {};

  std::function<std::optional<QuantizedForm>(const OpCall&)> quantized = nullptr;
};

struct OpDef {
  std::string name;
  // Operands and results. "bias?" may be left out (only last ones may); "xs..." is any number of them, at least one
  // (only the last may). Results: "mask?" is made only when a gradient rule asks for it (Gradient::saved) or the text
  // names it; "ys..." is as many as `infer` says.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs = {"y"};
  std::vector<AttributeSpec> attributes = {};

  // Types of all outputs, also of optional ones; rejects through the Call what breaks a rule. Required.
  std::function<std::vector<Type>(const OpCall&)> infer;

  // Emits the backward ops. Empty: asking for a gradient through this op is an error; `zero_gradient` (autodiff.h) for
  // ops like floor, whose gradient is zero everywhere.
  std::function<void(Gradient&)> gradient = nullptr;

  // Output 0 as a view of input 0, which lies as `of` says: its layout, or nothing when this use needs a copy.
  // Empty: never a view.
  std::function<std::optional<Layout>(const OpCall&, const Layout& of)> view = nullptr;
  // The same for ops that show input 0 as several outputs (split): output k. Set one of the two.
  std::function<std::optional<Layout>(const OpCall&, const Layout& of, int k)> views = nullptr;
  // What this op writes into storages of its inputs. Empty: it writes only new ones.
  std::vector<Overwrite> overwrites = {};
  // Output 0 may take the storage of one of these inputs when nothing reads that storage later; needs equal bytes, and
  // an input that is the whole of its storage.
  std::vector<int> in_place = {};

  // Arithmetic operations, and bytes read and written when nothing is cached. Defaults: one for each element of
  // output 0 (nothing for views); each input and output once.
  std::function<Dim(const OpCall&)> flops = nullptr;
  std::function<Dim(const OpCall&)> bytes = nullptr;

  OpTraits traits = {};

  // The values, in plain C++; set by reference/<family>.cc through OpTable::reference.
  std::function<void(Run<double>&)> reference_f64 = nullptr;
  std::function<void(Run<float>&)> reference_f32 = nullptr;

  // Derived when the definition enters the table.
  int least_inputs = 0;
  int most_inputs = 0;            // INT32_MAX when variadic
  bool variadic_outputs = false;  // all of `outputs` is one "ys..."

  bool is_optional_output(size_t k) const { return k < outputs.size() && outputs[k].ends_with('?'); }
  std::string_view input_name(int i) const;  // without its suffix
  bool produces_views() const { return view || views; }
  Sign sign(const OpCall& call) const { return traits.sign_of ? traits.sign_of(call) : traits.sign; }
  // What `view` or `views` says of output k; nothing when it is not a view.
  std::optional<Layout> view_of(const OpCall& call, const Layout& of, int k) const;
};

class OpTable {
 public:
  // ArgumentError for a name that is taken or an operand list that makes no sense: a bug in a family.
  void add(OpDef def);

  // The values of an op: a callable that takes Run<double>& and Run<float>&.
  template <class F>
  void reference(std::string_view op, F evaluate) {
    OpDef& def = get_mutable(op);
    def.reference_f64 = evaluate;
    def.reference_f32 = evaluate;
  }

  const OpDef* find(std::string_view name) const;
  const OpDef& get(std::string_view name) const;  // ArgumentError that names it
  const std::deque<OpDef>& all() const { return defs_; }

 private:
  OpDef& get_mutable(std::string_view name);

  std::deque<OpDef> defs_;  // never move: ops and the index point into it
  std::unordered_map<std::string_view, OpDef*> by_name_;
};

// All ops of all families, and those that others added, made on first use.
const OpTable& op_table();

// Ops of one's own: `add` is called when the table is made. ArgumentError when that was before: call it at the start of
// main, or from a static initialiser. Kernels: kernels::add_cpu_kernels.
void add_ops(void (*add)(OpTable&));

// ArgumentError when the op does not take so many operands.
void check_arity(const OpDef& def, size_t given);

// Checks and completes attributes by the schema. ArgumentError names the op and the attribute.
std::vector<Attribute> complete_attributes(const OpDef& def,
                                           std::span<const std::pair<std::string_view, Attribute>> given);

// The types of an op's operands and results in a program, as a Call. Keep it while the Call is in use.
class OwnedOpCall {
 public:
  OwnedOpCall(const Program& program, const Op& op);
  const OpCall& operator*() const { return call_; }
  const OpCall* operator->() const { return &call_; }
  OwnedOpCall(const OwnedOpCall&) = delete;
  OwnedOpCall& operator=(const OwnedOpCall&) = delete;

 private:
  std::vector<Type> inputs_;
  std::vector<Type> outputs_;
  OpCall call_;
};

// Cost of an op of a program. Symbolic until the program is bound.
Dim flops(const Program& program, const Op& op);
Dim traffic_bytes(const Program& program, const Op& op);

}  // namespace plimsoll::program
