#include "plimsoll/models/onnx/file.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/mapped_file.h"

namespace plimsoll::models::onnx_import {
namespace {

constexpr int kOldestOpset = 1;
constexpr int kMostNesting = 100;  // of messages: graphs in attributes of nodes of graphs

int64_t parse_number(const ModelFile& file, const TensorProto& tensor, const std::string& key,
                     const std::string& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    throw InputError({.source = file.name}, fmt::format("external data of {}: {} is {}, expected a number of bytes",
                                                        quote(tensor.name()), key, quote(text)));
  }
  return number;
}

// A path that stays below the folder it starts from.
bool stays_inside(const std::filesystem::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  int depth = 0;
  for (const auto& part : path) {
    if (part == "..") {
      if (--depth < 0) return false;
    } else if (part != ".") {
      ++depth;
    }
  }
  return depth > 0;
}

// Of what newer schemas and exporters add for readers, often most of a file that has its weights elsewhere.
void drop_remarks(ModelProto& model) {
  model.DiscardUnknownFields();
  model.clear_doc_string();
  for (NodeProto& node : *model.mutable_graph()->mutable_node()) node.clear_doc_string();
}

}  // namespace

int ModelFile::opset() const { return opset(""); }

int ModelFile::opset(const std::string& domain) const {
  const auto is_default = [](const std::string& text) { return text.empty() || text == "ai.onnx"; };
  for (const auto& import : proto.opset_import()) {
    if (import.domain() == domain || (is_default(import.domain()) && is_default(domain))) {
      return static_cast<int>(import.version());
    }
  }
  return kOldestOpset;
}

std::shared_ptr<const ModelFile> parse_model_file(std::string_view bytes, std::string name, std::string folder) {
  auto file = std::make_shared<ModelFile>();
  file->name = std::move(name);
  file->folder = std::move(folder);
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX)));
  stream.SetRecursionLimit(kMostNesting);
  if (bytes.size() > INT32_MAX) {
    throw InputError({.source = file->name}, fmt::format("{} bytes", bytes.size()),
                     "at most 2 GiB, which is protobuf's limit: save large weights as external data");
  }
  if (!file->proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw InputError({.source = file->name}, "bytes that protobuf cannot read as an ONNX model",
                     "a whole ONNX file (is it cut short?)");
  }
  if (!file->proto.has_graph()) {
    throw InputError({.source = file->name}, "a message without a graph", "an ONNX model");
  }
  drop_remarks(file->proto);
  return file;
}

std::shared_ptr<const ModelFile> read_model_file(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string beside = folder.empty() ? "." : folder.string();
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return parse_model_file(read_file(path), path, beside);
  const MappedFile file(path);
  return parse_model_file({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path, beside);
}

ExternalPlace external_place(const ModelFile& file, const TensorProto& tensor) {
  ExternalPlace place;
  std::string location;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") place.offset = parse_number(file, tensor, "offset", entry.value());
    if (entry.key() == "length") place.length = parse_number(file, tensor, "length", entry.value());
  }
  if (!stays_inside(location)) {
    throw InputError({.source = file.name},
                     fmt::format("external data of {} is in {}, expected a file in the model's own folder",
                                 quote(tensor.name()), quote(location)));
  }
  place.path = (std::filesystem::path(file.folder) / location).string();
  return place;
}

}  // namespace plimsoll::models::onnx_import
