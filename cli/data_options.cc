// What `plimsoll train` reads, and how.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "cli/train_options.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll::cli {
namespace {

constexpr double kMostPixels = 1024;

// "0.485,0.456,0.406"
std::vector<float> parse_numbers(std::string_view option, const std::string& text) {
  std::vector<float> numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string number = text.substr(at, end - at);
    char* stop = nullptr;
    numbers.push_back(std::strtof(number.c_str(), &stop));
    if (number.empty() || *stop != '\0') {
      throw ArgumentError(fmt::format("{} is {}, expected numbers with commas between them", option, quote(text)));
    }
    at = end + 1;
  }
  return numbers;
}

// An option whose text is read by `read`, which throws for what it cannot.
void add_text(const Command& verb, const std::string& name, const std::string& help,
              const std::function<void(const std::string&)>& read) {
  const auto text = std::make_shared<std::string>();
  verb.add_option(name, *text, help).check([text, read](const std::string& given) {
    read(given);
    return std::string();
  });
}

// A size is memory; else it is a folder.
void read_cache(const std::string& text, train::DataOptions& data) {
  if (const auto bytes = try_parse_bytes(text)) {
    data.cache_bytes = *bytes;
  } else {
    data.cache_folder = text;
  }
}

}  // namespace

void add_data_options(const Command& verb, TrainOptions& options) {
  train::DataOptions& data = options.data;
  verb.add_option("--data", data.path, "Folder of images by class, .npy, .npz, IDX, CIFAR, .bin tokens, .txt, .csv");
  verb.add_option("--eval-data", data.evaluation_path, "Data that it is evaluated on, after each epoch and at the end");
  verb.add_option("--take", data.take, "Train on so many samples alone, the first ones").in_range(1, 0x1p62);
  verb.add_off_flag("--no-shuffle", data.shuffle, "Take samples in their order");
  verb.add_option("--shuffle-buffer", data.shuffle_buffer,
                  "Shuffle blocks of so many neighbours, for files larger than memory");
  verb.add_option("--crop", data.augment.crop_padding, "Move images at random, by up to so many pixels each way")
      .in_range(0, kMostPixels);
  verb.add_flag("--flip", data.augment.flip, "Flip images left to right, every second one at random");
  add_text(verb, "--mean", "Taken off pixels, which are 0 to 1: a number, or one for each channel",
           [&data](const std::string& text) { data.mean = parse_numbers("--mean", text); });
  add_text(verb, "--std", "What pixels are divided by then, likewise",
           [&data](const std::string& text) { data.std = parse_numbers("--std", text); });
  add_text(verb, "--cache", "Keep samples as they were read first: a size of memory, or a folder for a file",
           [&data](const std::string& text) { read_cache(text, data); });
  verb.add_flag("--fill-last", data.fill_last,
                "Fill the last batch of an epoch with samples of its start, which else is left out");
  verb.add_flag("--unordered", data.unordered,
                "Take batches as they are ready: faster where some take long, not the same twice");
  verb.add_flag("--skip-corrupt", data.skip_corrupt, "Skip samples that cannot be read, and tell how many at the end");
  verb.add_option("--workers", data.workers, "Threads that read data; as many as the steps need when not given");
  verb.add_option("--prefetch", data.prefetch, "Batches ready ahead; as many as the steps need when not given");
}

}  // namespace plimsoll::cli
