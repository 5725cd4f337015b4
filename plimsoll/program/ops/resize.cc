#include "plimsoll/program/ops/resize.h"

#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/window.h"

namespace plimsoll::program {
namespace {

void require_attributes(const OpCall& call) {
  const std::string& mode = call.word("mode");
  if (mode != "nearest" && mode != "linear") call.reject(fmt::format("mode is {}, expected nearest or linear", mode));
  call.require(mode == "linear" || !call.flag("align_corners"), "align_corners is for mode=linear");
  call.require(call.real("scale") >= 0 && std::isfinite(call.real("scale")), "scale must be zero or more");
}

// The shape of the result for an x.
Dims resized(const OpCall& call, const Dims& x) {
  require_attributes(call);
  return sized(call, x);
}

std::vector<Type> infer_resize(const OpCall& call) {
  call.require_floating(0);
  return {{call.input(0).dtype, resized(call, call.shape(0))}};
}

std::vector<Type> infer_resize_backward(const OpCall& call) {
  call.require_floating(0);
  const Dims y = resized(call, call.dims("shape"));
  if (call.shape(0) != y) call.reject(fmt::format("dy must be {}, the shape of the result", y.text()));
  return {{call.input(0).dtype, call.dims("shape")}};
}

void differentiate_resize(Gradient& g) {
  std::vector<NamedAttribute> attributes = g.attributes();
  attributes.emplace_back("shape", g.b.shape(g.input(0)));
  g.set(0, g.b.emit("resize_backward", std::vector{g.of_output()}, attributes));
}

// A product and a sum for each corner that an element of the larger grid lies between; nearest only copies.
Dim resize_flops(const OpCall& call, const Dims& y) {
  return call.word("mode") == "nearest" ? Dim(0) : y.elements() * (int64_t{2} << (y.rank() - 2));
}

std::vector<AttributeSpec> resize_attributes() {
  return {{"size", AttributeKind::dims, {}},
          {"mode", AttributeKind::word, Attribute("nearest")},
          {"align_corners", AttributeKind::flag, Attribute(false)},
          {"scale", AttributeKind::real, Attribute(0.0)}};
}

bool is_whole(double number) { return number >= 1 && number == std::floor(number) && number < 1e9; }

// floor(size * scale). Of a symbol only what a Dim can say: whole multiples and whole parts.
Dim scaled(Dim size, double scale) {
  if (is_whole(scale)) return size * static_cast<int64_t>(scale);
  if (is_whole(1 / scale)) return floor_div(size, static_cast<int64_t>(1 / scale));
  if (size.is_constant()) return static_cast<int64_t>(std::floor(static_cast<double>(size.constant()) * scale));
  throw ArgumentError(
      fmt::format("resize: dimension {} times {} is not known before it is bound; give the size", size.text(), scale));
}

Dims scaled_plane(const Dims& shape, double scale) {
  if (!(scale > 0)) throw ArgumentError(fmt::format("resize: scale is {} and no size is given", scale));
  Dims size;
  for (int axis = 2; axis < shape.rank(); ++axis) size.push_back(scaled(shape[axis], scale));
  return size;
}

}  // namespace

Value resize(Builder& b, Value x, const ResizeOptions& options) {
  const Dims size = options.size.empty() ? scaled_plane(b.shape(x), options.scale) : options.size;
  return b.emit("resize", {x},
                {{"size", size},
                 {"mode", options.mode == ResizeMode::nearest ? "nearest" : "linear"},
                 {"align_corners", options.align_corners},
                 {"scale", options.scale}});
}

void register_resize(OpTable& table) {
  table.add({.name = "resize",
             .inputs = {"x"},
             .attributes = resize_attributes(),
             .infer = infer_resize,
             .gradient = differentiate_resize,
             .flops = [](const OpCall& call) { return resize_flops(call, call.output(0).shape); }});
  std::vector<AttributeSpec> attributes = resize_attributes();
  attributes.push_back({"shape", AttributeKind::dims, {}});
  table.add({.name = "resize_backward",
             .inputs = {"dy"},
             .outputs = {"dx"},
             .attributes = attributes,
             .infer = infer_resize_backward,
             .flops = [](const OpCall& call) { return call.shape(0).elements() + resize_flops(call, call.shape(0)); }});
}

}  // namespace plimsoll::program
