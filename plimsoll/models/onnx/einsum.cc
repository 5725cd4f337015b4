// Einstein's sums as products of matrices: operands are brought to [batch, rows, inner] and multiplied two at a time.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/products.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

// A tensor and a letter for each of its dimensions. Those that "..." stands for are capitals from 'A' with bit 7 set.
struct Lettered {
  Value value;
  std::string letters;
};

std::string spelled(const NodeCall& call, const std::string& term, int rank) {
  std::string letters;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term[i] != '.') {
      letters += term[i];
      continue;
    }
    i += 2;
    const auto named =
        static_cast<int>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.' && c != ' '; }));
    const int hidden = std::max(0, rank - named);
    if (hidden > 8) call.reject("too many dimensions");
    for (int k = 0; k < hidden; ++k) letters += static_cast<char>('0' + (8 - hidden) + k);
  }
  return letters;
}

Value arranged(Builder& b, const Lettered& x, const std::string& order) {
  Dims axes;
  bool same = true;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<int64_t>(x.letters.find(order[i]));
    same = same && at == static_cast<int64_t>(i);
    axes.push_back(at);
  }
  return same ? x.value : p::transpose(b, x.value, axes);
}

// Sums over letters that nobody else wants.
Lettered reduced(Builder& b, Lettered x, const std::string& wanted) {
  Dims axes;
  std::string kept;
  for (size_t i = 0; i < x.letters.size(); ++i) {
    if (wanted.find(x.letters[i]) == std::string::npos) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      kept += x.letters[i];
    }
  }
  if (!axes.empty()) x.value = p::sum(b, x.value, {.axes = axes});
  return {x.value, kept};
}

Lettered multiplied(NodeCall& call, const Lettered& x, const Lettered& z, const std::string& wanted) {
  Builder& b = call.b;
  std::string both;
  std::string inner;
  std::string rows;
  std::string columns;
  std::map<char, Dim> sizes;
  const auto note_sizes = [&](const Lettered& one) {
    for (size_t i = 0; i < one.letters.size(); ++i) {
      const Dim size = b.shape(one.value)[static_cast<int>(i)];
      const auto [at, fresh] = sizes.try_emplace(one.letters[i], size);
      if (!fresh && at->second == Dim(1)) at->second = size;
    }
  };
  note_sizes(x);
  note_sizes(z);
  for (const char letter : x.letters) {
    const bool shared = z.letters.find(letter) != std::string::npos;
    const bool kept = wanted.find(letter) != std::string::npos;
    (shared ? (kept ? both : inner) : rows) += letter;
  }
  for (const char letter : z.letters) {
    if (x.letters.find(letter) == std::string::npos) columns += letter;
  }
  const auto size_of = [&](const std::string& letters) {
    Dim size = 1;
    for (const char letter : letters) size = size * sizes.at(letter);
    return size;
  };
  const Value a = p::reshape(b, arranged(b, x, both + rows + inner), {size_of(both), size_of(rows), size_of(inner)});
  const Value c =
      p::reshape(b, arranged(b, z, both + inner + columns), {size_of(both), size_of(inner), size_of(columns)});
  const std::string letters = both + rows + columns;
  Dims out;
  for (const char letter : letters) out.push_back(sizes.at(letter));
  return {p::reshape(b, p::matmul(b, a, c), out), letters};
}

}  // namespace

Value einsum(NodeCall& call, const std::string& equation, const std::vector<Value>& operands) {
  const size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  std::vector<Lettered> terms;
  size_t start = 0;
  for (const Value operand : operands) {
    const size_t comma = left.find(',', start);
    const int rank = call.b.shape(operand).rank();
    terms.push_back({operand, spelled(call, left.substr(start, comma - start), rank)});
    if (static_cast<int>(terms.back().letters.size()) != rank)
      call.reject("a term of the equation does not match its operand");
    start = comma == std::string::npos ? left.size() : comma + 1;
  }
  std::map<char, int> count;
  for (const Lettered& term : terms) {
    for (const char letter : term.letters) ++count[letter];
    for (const char letter : term.letters) {
      call.require(std::count(term.letters.begin(), term.letters.end(), letter) == 1, "a letter twice in one term");
    }
  }
  std::string result;
  if (arrow == std::string::npos) {
    for (const auto& [letter, times] : count) {
      if (times == 1 || (letter >= '0' && letter <= '8')) result += letter;
    }
  } else {
    int hidden = 0;
    for (const auto& [letter, times] : count) hidden += letter >= '0' && letter <= '8' ? 1 : 0;
    const std::string term = equation.substr(arrow + 2);
    const auto named =
        static_cast<int>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.' && c != ' '; }));
    result = spelled(call, term, named + hidden);
  }
  for (const char letter : result) {
    if (!count.contains(letter)) call.reject("the result has a letter that no operand has");
  }
  Lettered all = terms[0];
  for (size_t i = 1; i <= terms.size(); ++i) {
    std::string wanted = result;
    for (size_t k = i; k < terms.size(); ++k) wanted += terms[k].letters;
    all = reduced(call.b, all, wanted);
    if (i == terms.size()) break;
    std::string later = result;
    for (size_t k = i + 1; k < terms.size(); ++k) later += terms[k].letters;
    all = multiplied(call, all, reduced(call.b, terms[i], later + all.letters), later);
  }
  return arranged(call.b, all, result);
}

}  // namespace plimsoll::models::onnx_import
