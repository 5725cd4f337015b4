#include "plimsoll/train/data/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "plimsoll/train/data/formats.h"
#include "plimsoll/train/data/images.h"
#include "plimsoll/train/data/npy.h"

namespace plimsoll::train::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 11> kFormats = {"images", "npy", "npz", "idx",  "cifar10", "cifar100",
                                                       "u16",    "u32", "csv", "text", "lines"};

// A path as the command line has it: FORMAT:FIRST,SECOND.
struct Request {
  std::string format = {};  // empty: by the path
  std::string first = {};
  std::string second = {};
};

Request parse_request(const std::string& path) {
  Request request{.first = path};
  const size_t colon = path.find(':');
  if (colon != std::string::npos &&
      std::find(kFormats.begin(), kFormats.end(), std::string_view(path).substr(0, colon)) != kFormats.end()) {
    request.format = path.substr(0, colon);
    request.first = path.substr(colon + 1);
  }
  const size_t comma = request.first.find(',');
  if (comma != std::string::npos && !fs::exists(request.first)) {
    request.second = request.first.substr(comma + 1);
    request.first.resize(comma);
  }
  if (request.first.empty()) throw ArgumentError(fmt::format("{} names no data: expected a path", quote(path)));
  return request;
}

// The first of the names that is there, in the folder; empty: none.
std::string first_in(const std::string& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path)) return path.string();
  }
  return "";
}

std::vector<std::string> cifar_batches(const std::string& folder) {
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) {
    const fs::path path = fs::path(folder) / fmt::format("data_batch_{}.bin", i);
    if (fs::exists(path)) files.push_back(path.string());
  }
  return files;
}

// "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz", or its plain or packed sister.
std::string labels_beside(const std::string& images) {
  std::string labels = images;
  for (const auto& [from, to] : {std::pair("images", "labels"), std::pair("idx3", "idx1")}) {
    const size_t at = labels.rfind(from);
    if (at == std::string::npos) {
      throw ArgumentError(fmt::format("{} names no labels: expected IMAGES,LABELS", quote(images)));
    }
    labels.replace(at, std::string_view(from).size(), to);
  }
  if (fs::exists(labels)) return labels;
  const std::string sister = labels.ends_with(".gz") ? labels.substr(0, labels.size() - 3) : labels + ".gz";
  return fs::exists(sister) ? sister : labels;
}

std::string npy_labels_beside(const std::string& x) {
  const fs::path folder = fs::path(x).parent_path();
  if (fs::path(x).filename() != "x.npy") return "";
  return first_in(folder.string(), {"y.npy", "target.npy", "labels.npy"});
}

std::unique_ptr<Source> open_folder(const std::string& folder, const OpenOptions& options) {
  if (const std::string x = first_in(folder, {"x.npy"}); !x.empty()) return open_npy(x, npy_labels_beside(x), options);
  const std::string images = first_in(folder, {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
                                               "t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"});
  if (!images.empty()) return open_idx(images, labels_beside(images), options);
  if (const auto batches = cifar_batches(folder); !batches.empty()) return open_cifar(batches, 1, options);
  if (!first_in(folder, {"fine_label_names.txt"}).empty()) {
    return open_cifar({(fs::path(folder) / "train.bin").string()}, 2, options);
  }
  return open_images(folder, options);  // which says what was expected where there are none
}

std::string format_of(const Request& request) {
  const fs::path path(request.first);
  const std::string name = path.filename().string();
  if (name.find("-ubyte") != std::string::npos) return "idx";
  const std::string ending = path.extension().string();
  if (ending == ".bin") return name.starts_with("data_batch") || name.starts_with("test_batch") ? "cifar10" : "u16";
  if (ending == ".txt") return "text";
  if (ending == ".npy" || ending == ".npz" || ending == ".csv") return ending.substr(1);
  throw ArgumentError(
      fmt::format("{} is no data that is known by its name: expected a folder, .npy, .npz, .csv, .bin, .txt or -ubyte, "
                  "or FORMAT:PATH "
                  "of "
                  "{}",
                  quote(request.first), fmt::join(kFormats, ", ")));
}

std::vector<std::string> cifar_files(const Request& request) {
  if (!fs::is_directory(request.first)) return {request.first};
  return cifar_batches(request.first);
}

}  // namespace

std::unique_ptr<Source> open(const std::string& path, const OpenOptions& options) {
  const Request request = parse_request(path);
  const auto& [given, first, second] = request;
  std::error_code error;
  if (!fs::exists(first, error)) throw SystemError(fmt::format("opening {} failed: no such file or folder", first));
  if (given.empty() && fs::is_directory(first)) return open_folder(first, options);
  const std::string format = given.empty() ? format_of(request) : given;
  if (format == "npy") return open_npy(first, second.empty() ? npy_labels_beside(first) : second, options);
  if (format == "npz") return open_npz(first, options);
  if (format == "idx") return open_idx(first, second.empty() ? labels_beside(first) : second, options);
  if (format == "cifar10") return open_cifar(cifar_files(request), 1, options);
  if (format == "cifar100") return open_cifar({first}, 2, options);
  if (format == "u16") return open_tokens(first, 2, options);
  if (format == "text") return open_tokens(first, 1, options);
  if (format == "lines") return open_lines(first, options);
  if (format == "u32") return open_tokens(first, 4, options);
  if (format == "csv") return open_csv(first, options);
  return open_images(first, options);
}

}  // namespace plimsoll::train::data
