// ONNX's own schema, as its protobuf classes. Debian's is of ONNX 1.12: what later versions added to files is either a
// number in a field that is there (types of elements) or an unknown field, which protobuf skips.
#pragma once

#ifndef ONNX_ML
#define ONNX_ML 1  // NOLINT: the library is built with it
#endif
#include <onnx/onnx_pb.h>

namespace plimsoll::models::onnx_import {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

// Types of elements that the schema's library may not know yet.
inline constexpr int kFloat8E4M3FN = 17;
inline constexpr int kFloat8E4M3FNUZ = 18;
inline constexpr int kFloat8E5M2 = 19;
inline constexpr int kFloat8E5M2FNUZ = 20;
inline constexpr int kUInt4 = 21;
inline constexpr int kInt4 = 22;

}  // namespace plimsoll::models::onnx_import
