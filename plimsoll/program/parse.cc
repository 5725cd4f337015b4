#include <fmt/format.h>

#include <unordered_map>

#include "plimsoll/base/error.h"
#include "plimsoll/program/builder.h"
#include "plimsoll/program/text.h"

namespace plimsoll::program {
namespace {

// One line and how far it is read.
class Cursor {
 public:
  Cursor(std::string_view source, int64_t number, std::string_view line)
      : source_(source), number_(number), line_(line.substr(0, line.find('#'))) {}

  bool at_end() {
    skip_blanks();
    return at_ == line_.size();
  }

  char peek() { return at_end() ? '\0' : line_[at_]; }

  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  void expect(char c, std::string_view why) {
    if (!accept(c)) fail(fmt::format("'{}' {}", c, why));
  }

  // The longest run of characters that can stand in a name.
  std::string_view word(std::string_view expected) {
    skip_blanks();
    const size_t begin = at_;
    while (at_ < line_.size() && is_value_name(line_.substr(at_, 1))) ++at_;
    if (at_ == begin) fail(expected);
    return line_.substr(begin, at_ - begin);
  }

  std::string_view value_name() {
    expect('%', "and the name of a value");
    return word("the name of a value");
  }

  // Everything up to one of `stops` outside brackets, without blanks at its end.
  std::string_view until(std::string_view stops) {
    skip_blanks();
    const size_t begin = at_;
    for (int depth = 0; at_ < line_.size(); ++at_) {
      const char c = line_[at_];
      if (depth == 0 && stops.find(c) != std::string_view::npos) break;
      depth += (c == '[' || c == '(') - (c == ']' || c == ')');
      if (depth == 0 && c == ']' && stops.empty()) break;
    }
    if (stops.empty() && at_ < line_.size()) ++at_;  // with the bracket that closes it
    std::string_view text = line_.substr(begin, at_ - begin);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
  }

  size_t mark() {
    skip_blanks();
    return at_;
  }

  [[noreturn]] void fail(std::string_view expected) {
    skip_blanks();
    const std::string_view rest = line_.substr(at_);
    throw InputError(place(at_), rest.empty() ? "the end of the line" : quote(rest), expected);
  }

  [[noreturn]] void fail_at(size_t at, std::string_view message) const { throw InputError(place(at), message); }

  // Runs what may throw ArgumentError for what stands at `at`.
  template <class F>
  auto locate(size_t at, F act) const {
    try {
      return act();
    } catch (const ArgumentError& error) {
      fail_at(at, error.what());
    }
  }

 private:
  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }

  Place place(size_t at) const { return {std::string(source_), number_, static_cast<int64_t>(at) + 1}; }

  std::string_view source_;
  int64_t number_;
  std::string_view line_;
  size_t at_ = 0;
};

// A value as its definition writes it: "%y: f32[3] gradient"; only the name must stand for the output of an op.
struct Definition {
  bool left_out = false;  // "_"
  std::string_view name = {};
  size_t at = 0;
  std::optional<Type> type = {};
  std::optional<Category> category = {};
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  Program parse() {
    int64_t number = 0;
    for (size_t begin = 0; begin <= text_.size();) {
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      Cursor line(source_, ++number, text_.substr(begin, end - begin));
      if (!line.at_end()) parse_line(line);
      begin = end + 1;
    }
    for (const auto& [category, values] : categories_) builder_.set_category(values, category);
    return std::move(builder_).finish();
  }

 private:
  void parse_line(Cursor& line) {
    if (line.peek() == '%' || line.peek() == '_') {
      parse_op(line);
    } else {
      parse_declaration(line);
    }
    if (!line.at_end()) line.fail("the end of the line");
  }

  void parse_declaration(Cursor& line) {
    constexpr std::string_view kExpected = "input, parameter, state, output or the %name of a value";
    const size_t at = line.mark();
    const std::string_view what = line.word(kExpected);
    if (what == "output") return builder_.output(known_value(line));
    if (what != "input" && what != "parameter" && what != "state") {
      line.fail_at(at, fmt::format("found {}, expected {}", quote(what), kExpected));
    }
    const Definition definition = parse_definition(line);
    if (!definition.type) line.fail("':' and a type");
    values_[std::string(definition.name)] = line.locate(definition.at, [&] { return declare(what, definition); });
  }

  Value declare(std::string_view what, const Definition& definition) {
    const auto& [left_out, name, at, type, category] = definition;
    if (what == "input") return builder_.input(name, *type, category.value_or(Category::input));
    if (what == "parameter") return builder_.parameter(name, *type, category.value_or(Category::parameter));
    return builder_.state(name, *type, category.value_or(Category::optimizer_state));
  }

  Definition parse_definition(Cursor& line) {
    Definition definition;
    definition.at = line.mark();
    definition.name = line.value_name();
    if (values_.contains(std::string(definition.name))) {
      line.fail_at(definition.at, fmt::format("%{} has two writers: it is defined above", definition.name));
    }
    if (!line.accept(':')) return definition;
    definition.type = parse_type(line);
    if (line.at_end() || line.peek() == '=' || line.peek() == ',') return definition;
    const size_t at = line.mark();
    const std::string_view word = line.word("a category");
    definition.category = try_parse_category(word);
    if (!definition.category) line.fail_at(at, fmt::format("found {}, expected a category", quote(word)));
    return definition;
  }

  static Type parse_type(Cursor& line) {
    const size_t at = line.mark();
    const std::string_view dtype = line.word("a type like f32[3,4]");
    return line.locate(at, [&] {
      const Dims dims = parse_attribute(AttributeKind::dims, line.until("")).dims();
      return Type{parse_dtype(dtype), dims};
    });
  }

  void parse_op(Cursor& line) {
    std::vector<Definition> outputs;
    do {
      if (line.accept('_')) {
        outputs.push_back({.left_out = true});
      } else {
        outputs.push_back(parse_definition(line));
      }
    } while (line.accept(','));
    line.expect('=', "and an op");
    const size_t at = line.mark();
    const std::string_view op = line.word("the name of an op");
    const OpDef& def = line.locate(at, [&]() -> std::reference_wrapper<const OpDef> { return op_table().get(op); });
    const std::vector<Value> inputs = parse_inputs(line);
    const std::vector<NamedAttribute> attributes = parse_attributes(line, def);
    builder_.set_phase(parse_phase(line));
    line.locate(at, [&] { builder_.emit(op, inputs, attributes, outputs[0].left_out ? op : outputs[0].name); });
    define_outputs(line, outputs, at);
  }

  std::vector<Value> parse_inputs(Cursor& line) {
    std::vector<Value> inputs;
    line.expect('(', "and the operands");
    while (line.peek() != ')') {
      inputs.push_back(known_value(line));
      if (!line.accept(',')) break;
    }
    line.expect(')', "after the operands");
    return inputs;
  }

  static std::vector<NamedAttribute> parse_attributes(Cursor& line, const OpDef& def) {
    std::vector<NamedAttribute> attributes;
    if (!line.accept('{')) return attributes;
    do {
      const size_t at = line.mark();
      const std::string_view name = line.word("the name of an attribute");
      line.expect('=', "and the attribute's value");
      attributes.emplace_back(name, line.locate(at, [&] { return parse_value(line, def, name); }));
    } while (line.accept(','));
    line.expect('}', "after the attributes");
    return attributes;
  }

  static Attribute parse_value(Cursor& line, const OpDef& def, std::string_view name) {
    for (const AttributeSpec& spec : def.attributes) {
      if (spec.name == name) return parse_attribute(spec.kind, line.until(",}"));
    }
    throw ArgumentError(fmt::format("op {} has no attribute {}", def.name, quote(name)));
  }

  static Phase parse_phase(Cursor& line) {
    if (!line.accept('@')) return Phase::forward;
    const size_t at = line.mark();
    const std::string_view word = line.word("a phase");
    const auto phase = try_parse_phase(word);
    if (!phase) line.fail_at(at, fmt::format("found {}, expected forward, backward or update", quote(word)));
    return *phase;
  }

  // Gives the outputs of the op just emitted their names, checks their types, and makes the optional ones.
  void define_outputs(Cursor& line, const std::vector<Definition>& outputs, size_t at) {
    const size_t op = builder_.program().ops.size() - 1;
    const size_t made = builder_.last_outputs().size();
    if (outputs.size() > made) line.fail_at(at, fmt::format("{} outputs, expected {}", outputs.size(), made));
    for (size_t k = 0; k < made; ++k) {
      const bool named = k < outputs.size() && !outputs[k].left_out;
      if (named) define_output(line, outputs[k], builder_.optional_output(op, k));
      if (!named && builder_.last_outputs()[k])
        line.fail_at(at, fmt::format("output {} of the op needs a name", k + 1));
    }
  }

  void define_output(Cursor& line, const Definition& definition, Value value) {
    line.locate(definition.at, [&] { builder_.rename(value, definition.name); });
    if (!values_.emplace(definition.name, value).second) {
      line.fail_at(definition.at, fmt::format("%{} has two writers in one op", definition.name));
    }
    const Type& inferred = builder_.type(value);
    if (definition.type && *definition.type != inferred) {
      line.fail_at(definition.at, fmt::format("%{} is said to be {}, but the op gives {}", definition.name,
                                              definition.type->text(), inferred.text()));
    }
    if (definition.category) categories_[*definition.category].push_back(value);
  }

  Value known_value(Cursor& line) {
    const size_t at = line.mark();
    const std::string_view name = line.value_name();
    const auto found = values_.find(std::string(name));
    if (found == values_.end()) line.fail_at(at, fmt::format("%{} is not defined above", name));
    return found->second;
  }

  std::string_view text_;
  std::string_view source_;
  Builder builder_;
  std::unordered_map<std::string, Value> values_;
  std::map<Category, std::vector<Value>> categories_;  // as definitions say
};

}  // namespace

Program parse_program(std::string_view text, std::string_view source) { return Parser(text, source).parse(); }

}  // namespace plimsoll::program
