// Mutations of ONNX models that keep them messages of protobuf: a field gets another value, often one that occurs
// elsewhere in the model, an element of a list goes, comes twice or changes places. So the fuzzer's inputs get past the
// parser.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plimsoll/models/onnx/schema.h"

class OnnxMutator {
 public:
  explicit OnnxMutator(unsigned seed) : random_(seed) {}

  void mutate(onnx::ModelProto& model) {
    collect(model);
    const size_t times = 1 + below(3);
    for (size_t i = 0; i < times && !places_.empty(); ++i) {
      change(places_[below(places_.size())]);
      collect(model);  // what was removed may have been collected
    }
  }

 private:
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;
  struct Place {
    Message* message;
    const Field* field;
  };

  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  // All fields that are set, and all strings.
  void collect(Message& model) {
    places_.clear();
    strings_.clear();
    collect_in(model);
  }
  void collect_in(Message& message) {
    const auto* reflection = message.GetReflection();
    std::vector<const Field*> fields;
    reflection->ListFields(message, &fields);
    for (const Field* field : fields) {
      places_.push_back({&message, field});
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) collect_element(message, field, i);
    }
  }
  void collect_element(Message& message, const Field* field, int i) {
    const auto* reflection = message.GetReflection();
    if (field->cpp_type() == Field::CPPTYPE_STRING) {
      strings_.push_back(field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                              : reflection->GetString(message, field));
    } else if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      collect_in(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                                      : *reflection->MutableMessage(&message, field));
    }
  }

  void change(const Place& at) {
    const auto* reflection = at.message->GetReflection();
    if (!at.field->is_repeated()) return below(16) == 0 ? reflection->ClearField(at.message, at.field) : set(at);
    const int count = reflection->FieldSize(*at.message, at.field);
    switch (below(4)) {
      case 0:
        return reflection->RemoveLast(at.message, at.field);
      case 1:
        return reflection->SwapElements(at.message, at.field, static_cast<int>(below(count)), count - 1);
      case 2:
        return add(at);
      default:
        return set_element(at, static_cast<int>(below(count)));
    }
  }

  void add(const Place& at) {
    const auto* reflection = at.message->GetReflection();
    switch (at.field->cpp_type()) {
      case Field::CPPTYPE_INT64:
        return reflection->AddInt64(at.message, at.field, integer());
      case Field::CPPTYPE_INT32:
        return reflection->AddInt32(at.message, at.field, static_cast<int>(integer()));
      case Field::CPPTYPE_FLOAT:
        return reflection->AddFloat(at.message, at.field, real());
      case Field::CPPTYPE_STRING:
        return reflection->AddString(at.message, at.field, string());
      case Field::CPPTYPE_MESSAGE: {
        const int count = reflection->FieldSize(*at.message, at.field);
        const std::string copy =
            reflection->GetRepeatedMessage(*at.message, at.field, static_cast<int>(below(count))).SerializeAsString();
        reflection->AddMessage(at.message, at.field)->ParseFromString(copy);
        return;
      }
      default:
        return;
    }
  }

  void set(const Place& at) {
    const auto* reflection = at.message->GetReflection();
    switch (at.field->cpp_type()) {
      case Field::CPPTYPE_INT64:
        return reflection->SetInt64(at.message, at.field, integer());
      case Field::CPPTYPE_INT32:
        return reflection->SetInt32(at.message, at.field, static_cast<int>(below(24)));
      case Field::CPPTYPE_ENUM:
        return reflection->SetEnumValue(at.message, at.field, static_cast<int>(below(16)));
      case Field::CPPTYPE_FLOAT:
        return reflection->SetFloat(at.message, at.field, real());
      case Field::CPPTYPE_STRING:
        return reflection->SetString(at.message, at.field, string());
      default:
        return;
    }
  }

  void set_element(const Place& at, int i) {
    const auto* reflection = at.message->GetReflection();
    switch (at.field->cpp_type()) {
      case Field::CPPTYPE_INT64:
        return reflection->SetRepeatedInt64(at.message, at.field, i, integer());
      case Field::CPPTYPE_FLOAT:
        return reflection->SetRepeatedFloat(at.message, at.field, i, real());
      case Field::CPPTYPE_STRING:
        return reflection->SetRepeatedString(at.message, at.field, i, string());
      default:
        return;
    }
  }

  int64_t integer() {
    constexpr int64_t kEdges[] = {0,   1,    -1,        2,         3,         7,         -2,
                                  255, 1024, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 40};
    return kEdges[below(std::size(kEdges))];
  }
  float real() {
    constexpr float kEdges[] = {0, 1, -1, 0.5F, 1e-30F, -1e30F, INFINITY, NAN};
    return kEdges[below(std::size(kEdges))];
  }
  std::string string() {
    static const std::vector<std::string> ops = {"Reshape",
                                                 "Transpose",
                                                 "Gather",
                                                 "Concat",
                                                 "Slice",
                                                 "Split",
                                                 "Expand",
                                                 "Tile",
                                                 "Pad",
                                                 "Range",
                                                 "Shape",
                                                 "ConstantOfShape",
                                                 "Where",
                                                 "Cast",
                                                 "Conv",
                                                 "ConvTranspose",
                                                 "MaxPool",
                                                 "AveragePool",
                                                 "GlobalAveragePool",
                                                 "MatMul",
                                                 "Gemm",
                                                 "Einsum",
                                                 "Softmax",
                                                 "LayerNormalization",
                                                 "BatchNormalization",
                                                 "InstanceNormalization",
                                                 "GroupNormalization",
                                                 "Attention",
                                                 "RotaryEmbedding",
                                                 "MultiHeadAttention",
                                                 "GRU",
                                                 "RNN",
                                                 "LSTM",
                                                 "Scan",
                                                 "Loop",
                                                 "If",
                                                 "TopK",
                                                 "NonZero",
                                                 "CumSum",
                                                 "Trilu",
                                                 "OneHot",
                                                 "ScatterND",
                                                 "ScatterElements",
                                                 "GatherND",
                                                 "GatherElements",
                                                 "Resize",
                                                 "GridSample",
                                                 "DepthToSpace",
                                                 "SpaceToDepth",
                                                 "Unsqueeze",
                                                 "Squeeze",
                                                 "Flatten",
                                                 "ReduceSum",
                                                 "ReduceMean",
                                                 "ArgMax",
                                                 "QuantizeLinear",
                                                 "DequantizeLinear",
                                                 "QLinearConv",
                                                 "QLinearMatMul",
                                                 "MatMulInteger",
                                                 "SequenceConstruct",
                                                 "SplitToSequence",
                                                 "ConcatFromSequence",
                                                 "Dropout",
                                                 "LRN",
                                                 "MaxUnpool",
                                                 "RoiAlign",
                                                 "STFT",
                                                 "DFT",
                                                 "HammingWindow",
                                                 "Col2Im",
                                                 "CenterCropPad",
                                                 "SoftmaxCrossEntropyLoss"};
    if (below(8) == 0) return {};  // an optional input that is left out
    if (strings_.empty() || below(3) == 0) return ops[below(ops.size())];
    return strings_[below(strings_.size())];
  }

  std::mt19937 random_;
  std::vector<Place> places_;
  std::vector<std::string> strings_;
};
