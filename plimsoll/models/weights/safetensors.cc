#include "plimsoll/models/weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/half.h"

namespace plimsoll::models {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMostHeader = 100'000'000;  // the format's own limit
constexpr int kMostDepth = 8;

struct StoredType {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array kStoredTypes = {
    StoredType{"F64", 8}, StoredType{"F32", 4}, StoredType{"F16", 2}, StoredType{"BF16", 2}, StoredType{"I64", 8},
    StoredType{"I32", 4}, StoredType{"I16", 2}, StoredType{"I8", 1},  StoredType{"U8", 1},   StoredType{"BOOL", 1}};

int64_t bytes_of(const std::string& path, const std::string& name, const std::string& dtype) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == dtype) return type.bytes;
  }
  throw UnsupportedError(fmt::format("{}: tensor {} has elements of {}, expected F64, F32, F16, BF16 or integers", path,
                                     quote(name), quote(dtype)));
}

ordered_json parse_header(const std::string& path, std::string_view text) {
  const auto guard = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kMostDepth) throw InputError({.source = path}, "a header that is nested deeply", "a flat one");
    return true;
  };
  try {
    ordered_json header = ordered_json::parse(text, guard);
    if (header.is_object()) return header;
  } catch (const ordered_json::exception& error) {
    throw InputError({.source = path}, fmt::format("the header is no JSON: {}", error.what()));
  }
  throw InputError({.source = path}, "a header that is no object", "one that names tensors");
}

StoredTensor parse_tensor(const std::shared_ptr<const MappedFile>& file, const std::string& name,
                          const ordered_json& json, std::span<const std::byte> data) {
  const std::string& path = file->path();
  const auto refuse = [&](std::string_view why) -> InputError {
    return {{.source = path}, fmt::format("tensor {}: {}", quote(name), why)};
  };
  try {
    StoredTensor tensor{name, json.at("dtype").get<std::string>(), {}, {}, file, {}};
    const auto dims = json.at("shape").get<std::vector<int64_t>>();
    const auto places = json.at("data_offsets").get<std::vector<uint64_t>>();
    tensor.shape = Shape(dims);
    if (places.size() != 2 || places[0] > places[1] || places[1] > data.size()) {
      throw refuse(fmt::format("its bytes lie outside of the file's {}", data.size()));
    }
    const int64_t element = bytes_of(path, name, tensor.dtype);
    const auto size = static_cast<int64_t>(places[1] - places[0]);
    if (size % element != 0 || tensor.shape.elements() != size / element) {
      throw refuse(fmt::format("{} bytes do not make {}{}", size, tensor.dtype, tensor.shape.text()));
    }
    tensor.bytes = data.subspan(places[0], static_cast<size_t>(size));
    return tensor;
  } catch (const ordered_json::exception& error) {
    throw refuse(error.what());
  } catch (const ArgumentError& error) {
    throw refuse(error.what());
  }
}

// What is no text is left out: readers of this format ignore it.
StoredTexts parse_texts(const ordered_json& json) {
  StoredTexts texts;
  if (!json.is_object()) return texts;
  for (const auto& [name, text] : json.items()) {
    if (text.is_string()) texts.emplace(name, text.get<std::string>());
  }
  return texts;
}

void check_overlaps(const std::string& path, const StoredTensors& tensors) {
  std::vector<const StoredTensor*> in_order;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.bytes.empty()) in_order.push_back(&tensor);
  }
  std::sort(in_order.begin(), in_order.end(),
            [](const StoredTensor* a, const StoredTensor* b) { return a->bytes.data() < b->bytes.data(); });
  for (size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i - 1]->bytes.data() + in_order[i - 1]->bytes.size() > in_order[i]->bytes.data()) {
      throw InputError({.source = path}, fmt::format("tensors {} and {} overlap", quote(in_order[i - 1]->name),
                                                     quote(in_order[i]->name)));
    }
  }
}

}  // namespace

StoredFile read_stored_file(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> all = file->bytes();
  uint64_t length = 0;
  if (all.size() >= kLengthBytes) std::memcpy(&length, all.data(), kLengthBytes);
  if (all.size() < kLengthBytes || length > all.size() - kLengthBytes || length > kMostHeader) {
    throw InputError({.source = path}, fmt::format("a file of {} bytes with a header of {}", all.size(), length),
                     "a whole safetensors file");
  }
  const std::string_view text(reinterpret_cast<const char*>(all.data()) + kLengthBytes, length);
  StoredFile stored{{}, {}, static_cast<int64_t>(kLengthBytes + length)};
  const ordered_json header = parse_header(path, text);
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      stored.texts = parse_texts(json);
    } else {
      stored.tensors.emplace(name, parse_tensor(file, name, json, all.subspan(kLengthBytes + length)));
    }
  }
  check_overlaps(path, stored.tensors);
  return stored;
}

namespace {

StoredTensors read_one(const std::string& path) { return read_stored_file(path).tensors; }

bool is_plain_name(const std::string& file) {
  return !file.empty() && file.find('/') == std::string::npos && file != ".." && file != ".";
}

StoredTensors read_index(const std::string& path) {
  const ordered_json index = parse_header(path, read_file(path));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    throw InputError({.source = path}, "no weight_map", "a safetensors index");
  std::map<std::string, StoredTensors> files;
  StoredTensors tensors;
  for (const auto& [name, json] : map->items()) {
    const std::string file = json.is_string() ? json.get<std::string>() : "";
    if (!is_plain_name(file)) {
      throw InputError({.source = path},
                       fmt::format("tensor {} is in {}, expected a file beside the index", quote(name), quote(file)));
    }
    if (!files.contains(file)) files[file] = read_one((std::filesystem::path(path).parent_path() / file).string());
    const auto found = files[file].find(name);
    if (found == files[file].end()) {
      throw InputError({.source = path}, fmt::format("tensor {} is not in {}", quote(name), quote(file)));
    }
    tensors.emplace(name, found->second);
  }
  return tensors;
}

template <class From>
void copy_from(const std::byte* bytes, std::span<float> into, int64_t first) {
  for (size_t i = 0; i < into.size(); ++i) {
    From element;
    std::memcpy(&element, bytes + (static_cast<size_t>(first) + i) * sizeof(From), sizeof(From));
    into[i] = static_cast<float>(element);  // NOLINT(bugprone-signed-char-misuse): an I8 is a number
  }
}

template <float (*ToFloat)(uint16_t)>
void copy_half_from(const std::byte* bytes, std::span<float> into, int64_t first) {
  for (size_t i = 0; i < into.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + (static_cast<size_t>(first) + i) * 2, 2);
    into[i] = ToFloat(bits);
  }
}

}  // namespace

void StoredTensor::read(std::span<float> into, int64_t first) const {
  const std::byte* data = bytes.data();
  if (dtype == "F32") return copy_from<float>(data, into, first);
  if (dtype == "F64") return copy_from<double>(data, into, first);
  if (dtype == "F16") return copy_half_from<float_of_f16>(data, into, first);
  if (dtype == "BF16") return copy_half_from<float_of_bf16>(data, into, first);
  if (dtype == "I64") return copy_from<int64_t>(data, into, first);
  if (dtype == "I32") return copy_from<int32_t>(data, into, first);
  if (dtype == "I16") return copy_from<int16_t>(data, into, first);
  if (dtype == "I8") return copy_from<int8_t>(data, into, first);
  copy_from<uint8_t>(data, into, first);
}

StoredTensors read_safetensors(const std::string& path) {
  return path.ends_with(".json") ? read_index(path) : read_one(path);
}

std::string_view stored_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::i16:
      return "I16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::boolean:
      return "BOOL";
  }
  return "";
}

std::string stored_header(const std::vector<StoredSpec>& tensors, const StoredTexts& texts) {
  ordered_json header = ordered_json::object();
  header["__metadata__"] = texts;
  int64_t place = 0;
  for (const StoredSpec& tensor : tensors) {
    const std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
    header[tensor.name] = {
        {"dtype", stored_dtype(tensor.dtype)}, {"shape", dims}, {"data_offsets", {place, place + tensor.bytes()}}};
    place += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

void write_safetensors(const std::string& path, const std::vector<TensorToStore>& tensors) {
  std::vector<StoredSpec> specs;
  for (const TensorToStore& tensor : tensors) specs.push_back({tensor.name, DType::f32, tensor.shape});
  const std::string text = stored_header(specs, {{"format", "pt"}});
  const std::string unfinished = path + ".part";
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  constexpr int64_t kBlock = 1 << 18;
  std::vector<float> block;
  for (const TensorToStore& tensor : tensors) {
    const int64_t count = tensor.shape.elements();
    for (int64_t first = 0; first < count; first += kBlock) {
      block.resize(static_cast<size_t>(std::min(kBlock, count - first)));
      tensor.read(block, first);
      out.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size() * 4));
    }
  }
  out.close();
  if (!out || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    std::remove(unfinished.c_str());
    throw SystemError(fmt::format("writing {} failed: is there room, and may it be written?", path));
  }
}

}  // namespace plimsoll::models
