// Cards on paper as devices: facts for plans, and nothing that runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/device.h"

namespace plimsoll::device {
namespace {

constexpr int64_t kReserve = int64_t{512} << 20;  // as a real card has it, for compiled kernels

class PaperCard : public Device {
 public:
  explicit PaperCard(const cuda::Card& card)
      : card_(card), traits_{.name = "cuda:" + card.name, .alignment = 256, .is_host = false, .runs = false} {}

  const Traits& traits() const override { return traits_; }
  std::unique_ptr<PageSource> pages(int64_t /*bytes*/) override { refuse(); }
  std::unique_ptr<Stream> stream(const StreamOptions& /*options*/) override { refuse(); }
  std::unique_ptr<Event> event() override { refuse(); }
  void read(std::span<std::byte> /*to*/, const std::byte* /*from*/) override { refuse(); }
  void write(std::byte* /*to*/, std::span<const std::byte> /*from*/) override { refuse(); }
  std::string cost_id() const override { return card_.title + " on paper"; }
  std::optional<Rates> rates() const override { return Rates{card_.flops_per_s, card_.bytes_per_s}; }
  Budget budget() const override {
    return {card_.memory_bytes - overhead_bytes(), fmt::format("memory of {}, less {} for its context and kernels",
                                                               card_.title, format_bytes(overhead_bytes()))};
  }
  int64_t overhead_bytes() const override { return card_.context_bytes + kReserve; }
  void use() const { cuda::set_card_on_paper(&card_); }

 private:
  [[noreturn]] void refuse() const {
    throw UnsupportedError(fmt::format(
        "{} is a card on paper: estimate and plan know it, nothing runs on it; --device cuda is the card of "
        "this machine",
        traits_.name));
  }

  const cuda::Card& card_;
  Traits traits_;
};

}  // namespace

Device& paper_card(std::string_view name) {
  const cuda::Card* const card = cuda::find_card(name);
  if (card == nullptr) {
    throw ArgumentError(fmt::format("there is no card {}, expected the number of one of this machine's, or one of {}",
                                    quote(name), fmt::join(cuda::card_names(), ", ")));
  }
  static std::map<std::string, PaperCard, std::less<>> devices;
  PaperCard& device = devices.try_emplace(card->name, *card).first->second;
  device.use();
  return device;
}

}  // namespace plimsoll::device
