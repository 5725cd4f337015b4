// An ONNX file as it was read: the protobuf message and where external data is looked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/models/onnx/schema.h"

namespace plimsoll::models::onnx_import {

struct ModelFile {
  std::string name;    // for messages: the path as it was given
  std::string folder;  // of external data; empty: there is none to look in
  ModelProto proto;

  // The version of the default domain's ops that the file imports.
  int opset() const;
  int opset(const std::string& domain) const;
};

// InputError for what is no ONNX model or is cut short; SystemError when it cannot be read.
std::shared_ptr<const ModelFile> read_model_file(const std::string& path);
std::shared_ptr<const ModelFile> parse_model_file(std::string_view bytes, std::string name, std::string folder = {});

// Where in which file the bytes of a tensor are.
struct ExternalPlace {
  std::string path;
  int64_t offset = 0;
  int64_t length = -1;  // -1: not said
};
// InputError for a place outside of the model's folder and for numbers that are none.
ExternalPlace external_place(const ModelFile& file, const TensorProto& tensor);

}  // namespace plimsoll::models::onnx_import
