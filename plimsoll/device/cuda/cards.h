// Cards that plans can be made for without having one: "cuda:h200". What is known of a card is a file in
// device/cuda/cards/, embedded by the build: its memory, its rates, and of its libraries the workspace that
// convolutions took there (recorded on a card, see Workspaces).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::cuda {

struct Card {
  std::string name;          // "h200"
  std::string title;         // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  int64_t memory_bytes = 0;  // as its driver tells it
  int64_t context_bytes = 0;
  double flops_per_s = 0;  // in products of bf16, reached by large ones
  double bytes_per_s = 0;
  // By what a convolution is; -1: the library has no way that gives the same bits each time.
  std::map<std::string, int64_t, std::less<>> workspaces = {};

  // What a convolution takes there that was not recorded: the least that kernels ask for.
  static constexpr int64_t kUnknownWorkspace = int64_t{16} << 20;
  int64_t workspace_of(std::string_view convolution) const;
};

// Null for a name that is none.
const Card* find_card(std::string_view name);
std::vector<std::string> card_names();

// ArgumentError that says what a file lacks.
Card parse_card(std::string_view name, std::string_view json);

// The card that kernels are prepared for on paper, set by its device; null where they are for a real one.
const Card* card_on_paper();
void set_card_on_paper(const Card* card);

// What convolutions took while one of these lives, on a real card: what a file of device/cuda/cards/ records.
class Workspaces {
 public:
  Workspaces();
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  const std::map<std::string, int64_t, std::less<>>& found() const { return found_; }
  static void note(const std::string& convolution, int64_t bytes);  // where one lives

 private:
  std::map<std::string, int64_t, std::less<>> found_;
};

}  // namespace plimsoll::cuda
