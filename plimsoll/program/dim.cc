#include "plimsoll/program/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::program {
namespace {

constexpr size_t kMostTerms = 64;
constexpr size_t kMostFactors = 32;
constexpr size_t kLongestSymbol = 64;

[[noreturn]] void overflow() { throw ArgumentError("a dimension does not fit in 62 bits"); }

int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) overflow();
  return product;
}

int64_t add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) overflow();
  return sum;
}

// Numbers that would read as places in the table are out of range.
Dim number(int64_t value) {
  if (value <= INT64_MIN / 2 || value > INT64_MAX / 2) overflow();
  return value;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b <= 0) throw ArgumentError(fmt::format("a dimension is divided by {}, which is not positive", b));
  return a / b - (a % b < 0 ? 1 : 0);
}

// A factor of a product: a symbol, or a floor division. Ordered by text, so that forms do not depend on history.
struct Factor {
  std::string text;  // "batch" or "(sequence+1)//2"
  bool is_symbol = true;
  Dim dividend;  // of a division
  Dim divisor;

  bool operator==(const Factor& other) const { return text == other.text; }
  bool operator<(const Factor& other) const { return text < other.text; }
};

struct Term {
  int64_t coefficient = 0;
  std::vector<Factor> factors;  // sorted; empty for the constant
};

bool same_factors(const Term& a, const Term& b) { return a.factors == b.factors; }

// Products of more factors first, the constant last.
bool before(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
  return a.factors < b.factors;
}

using Sum = std::vector<Term>;  // sorted by `before`, no two with the same factors, no zero coefficient

std::string text_of(const Term& term, bool alone) {
  if (term.factors.empty()) return fmt::format("{}", term.coefficient);
  const bool single = term.coefficient == 1 && term.factors.size() == 1;
  std::string text = term.coefficient == 1 ? "" : term.coefficient == -1 ? "-" : fmt::format("{}*", term.coefficient);
  for (size_t i = 0; i < term.factors.size(); ++i) {
    const Factor& factor = term.factors[i];
    const bool bare = factor.is_symbol || (single && alone);
    if (i > 0) text += '*';
    text += bare ? factor.text : "(" + factor.text + ")";
  }
  return text;
}

std::string text_of(const Sum& sum) {
  std::string text;
  for (const Term& term : sum) {
    const std::string part = text_of(term, true);
    if (!text.empty() && part.front() != '-') text += '+';
    text += part;
  }
  return text;
}

// Sorts, merges like terms and drops zeros.
Sum normal(Sum terms) {
  std::sort(terms.begin(), terms.end(), before);
  Sum sum;
  for (Term& term : terms) {
    if (!sum.empty() && same_factors(sum.back(), term)) {
      sum.back().coefficient = add(sum.back().coefficient, term.coefficient);
    } else {
      sum.push_back(std::move(term));
    }
  }
  std::erase_if(sum, [](const Term& term) { return term.coefficient == 0; });
  if (sum.size() > kMostTerms) throw ArgumentError("a dimension's expression grows past 64 terms");
  return sum;
}

Term product(const Term& a, const Term& b) {
  Term term{multiply(a.coefficient, b.coefficient), a.factors};
  term.factors.insert(term.factors.end(), b.factors.begin(), b.factors.end());
  if (term.factors.size() > kMostFactors) throw ArgumentError("a dimension's expression grows past 32 factors");
  std::sort(term.factors.begin(), term.factors.end());
  return term;
}

}  // namespace

// Every expression that the process has met, by its canonical text.
class DimTable {
 public:
  static DimTable& get() {
    static DimTable table;
    return table;
  }

  Dim intern(Sum sum) {
    if (sum.empty()) return 0;
    if (sum.size() == 1 && sum[0].factors.empty()) return number(sum[0].coefficient);
    std::string text = text_of(sum);
    const std::unique_lock lock(mutex_);
    const auto [found, fresh] = places_.try_emplace(text, static_cast<int64_t>(entries_.size()));
    if (fresh) entries_.push_back({std::move(text), std::move(sum)});
    Dim dim;
    dim.value_ = Dim::kLastExpression - found->second;
    return dim;
  }

  struct Entry {
    std::string text;
    Sum sum;
  };

  // Entries never move or change once made.
  const Entry& entry(Dim dim) const {
    const std::shared_lock lock(mutex_);
    return entries_[static_cast<size_t>(Dim::kLastExpression - dim.value_)];
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, int64_t> places_;
  std::deque<Entry> entries_;
};

namespace {

Sum sum_of(Dim dim) {
  if (!dim.is_constant()) return DimTable::get().entry(dim).sum;
  return dim == 0 ? Sum{} : Sum{Term{dim.key(), {}}};
}

Dim scaled_sum(Dim a, Dim b, int64_t scale) {
  Sum sum = sum_of(a);
  for (Term& term : sum_of(b)) {
    term.coefficient = multiply(term.coefficient, scale);
    sum.push_back(std::move(term));
  }
  return DimTable::get().intern(normal(std::move(sum)));
}

Dim product(Dim a, Dim b) {
  Sum terms;
  for (const Term& left : sum_of(a)) {
    for (const Term& right : sum_of(b)) terms.push_back(product(left, right));
  }
  return DimTable::get().intern(normal(std::move(terms)));
}

// term / divisor when that leaves no remainder whatever the symbols are.
std::optional<Term> exact_quotient(const Term& term, const Term& divisor) {
  if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
  Term quotient{term.coefficient / divisor.coefficient, {}};
  std::vector<Factor> left = divisor.factors;
  for (const Factor& factor : term.factors) {
    const auto cancels = std::find(left.begin(), left.end(), factor);
    if (cancels == left.end()) {
      quotient.factors.push_back(factor);
    } else {
      left.erase(cancels);
    }
  }
  if (!left.empty()) return std::nullopt;
  return quotient;
}

Dim division(Dim dividend, Dim divisor) {
  const auto wrap = [](Dim dim) {
    const std::string text = dim.text();
    const bool simple = text.find_first_of("+-*/") == std::string::npos;
    return simple ? text : "(" + text + ")";
  };
  Factor factor{wrap(dividend) + "//" + wrap(divisor), false, dividend, divisor};
  if (factor.text.size() > 1000) throw ArgumentError("a dimension's expression grows past 1000 characters");
  return DimTable::get().intern({Term{1, {std::move(factor)}}});
}

// a / b, rounded down; they are not both numbers.
Dim quotient(Dim a, Dim b) {
  const Sum divisor = sum_of(b);
  if (divisor.size() != 1) return a == b ? Dim(1) : division(a, b);
  // What divides exactly comes out of the floor: floor((2q + r) / 2) = q + floor(r / 2).
  Sum whole;
  Sum rest;
  for (Term& term : sum_of(a)) {
    auto exact = exact_quotient(term, divisor[0]);
    if (exact) whole.push_back(std::move(*exact));
    if (!exact) rest.push_back(std::move(term));
  }
  DimTable& table = DimTable::get();
  const Dim remainder = table.intern(std::move(rest));
  const Dim exact = table.intern(normal(std::move(whole)));
  if (remainder == 0) return exact;
  if (remainder.is_constant() && b.is_constant()) return exact + floor_divide(remainder.key(), b.key());
  return exact + division(remainder, b);
}

Dim bind_factor(const Factor& factor, const Bindings& bindings) {
  if (!factor.is_symbol) return floor_div(factor.dividend.bind(bindings), factor.divisor.bind(bindings));
  const auto bound = bindings.find(factor.text);
  return bound == bindings.end() ? Dim::symbol(factor.text) : Dim(bound->second);
}

enum class Operation : uint8_t { add, subtract, multiply, divide };

struct Question {
  Operation operation;
  Dim a;
  Dim b;

  bool operator==(const Question&) const = default;
};

struct QuestionHash {
  size_t operator()(const Question& question) const noexcept {
    uint64_t hash = static_cast<uint64_t>(question.operation) + 1;
    for (const Dim dim : {question.a, question.b}) {
      hash = (hash ^ static_cast<uint64_t>(dim.key())) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// `work()`, or what it gave before: programs ask for the same few sums and products again and again.
template <class Work>
Dim remember(Operation operation, Dim a, Dim b, Work work) {
  constexpr size_t kMostAnswers = 1 << 16;
  thread_local std::unordered_map<Question, Dim, QuestionHash> answers;
  const Question question{operation, a, b};
  if (const auto found = answers.find(question); found != answers.end()) return found->second;
  const Dim answer = work();
  if (answers.size() == kMostAnswers) answers.clear();
  answers.emplace(question, answer);
  return answer;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_symbol_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestSymbol || !is_letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

}  // namespace

Dim Dim::symbol(std::string_view name) {
  if (!is_symbol_name(name)) {
    throw ArgumentError(
        fmt::format("{} is not a symbol: expected a letter, then letters, digits and underscores, "
                    "at most {}",
                    quote(name), kLongestSymbol));
  }
  return DimTable::get().intern({Term{1, {Factor{std::string(name), true, {}, {}}}}});
}

int64_t Dim::constant() const {
  if (!is_constant()) throw ArgumentError(fmt::format("dimension {} is not bound to a number", text()));
  return value_;
}

std::string Dim::text() const { return is_constant() ? fmt::format("{}", value_) : DimTable::get().entry(*this).text; }

void Dim::collect_symbols(std::set<std::string>& into) const {
  if (is_constant()) return;
  for (const Term& term : DimTable::get().entry(*this).sum) {
    for (const Factor& factor : term.factors) {
      if (factor.is_symbol) into.insert(factor.text);
      factor.dividend.collect_symbols(into);
      factor.divisor.collect_symbols(into);
    }
  }
}

Dim Dim::bind(const Bindings& bindings) const {
  if (is_constant()) return *this;
  Dim sum = 0;
  for (const Term& term : DimTable::get().entry(*this).sum) {
    Dim product = term.coefficient;
    for (const Factor& factor : term.factors) product = product * bind_factor(factor, bindings);
    sum = sum + product;
  }
  return sum;
}

Dim operator+(Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) return number(add(a.key(), b.key()));
  if (a == 0) return b;
  if (b == 0) return a;
  return remember(Operation::add, a, b, [&] { return scaled_sum(a, b, 1); });
}

Dim operator-(Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) return number(add(a.key(), -b.key()));
  if (b == 0) return a;
  return remember(Operation::subtract, a, b, [&] { return scaled_sum(a, b, -1); });
}

Dim operator*(Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) return number(multiply(a.key(), b.key()));
  if (a == 1) return b;
  if (b == 1) return a;
  return remember(Operation::multiply, a, b, [&] { return product(a, b); });
}

Dim floor_div(Dim a, Dim b) {
  if (b == 1) return a;
  if (b.is_constant() && b.key() <= 0) floor_divide(0, b.key());  // throws, saying so
  if (a.is_constant() && b.is_constant()) return floor_divide(a.key(), b.key());
  return remember(Operation::divide, a, b, [&] { return quotient(a, b); });
}

Dim ceil_div(Dim a, Dim b) { return floor_div(a + b - 1, b); }

}  // namespace plimsoll::program
