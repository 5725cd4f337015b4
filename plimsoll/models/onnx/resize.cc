#include "plimsoll/models/onnx/resize.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::models::onnx_import {
namespace {

constexpr double kMostScale = 1e6;
constexpr int64_t kMostPlaces = int64_t{1} << 24;  // of an axis, and of the matrix of one

struct Modes {
  std::string mode, coordinates, nearest, policy;
  double cubic = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

struct Axis {
  int64_t from, to;
  double scale;
  bool is_scaled;  // the scale is given, not the size
  double roi_start = 0, roi_end = 1;
};

double coordinate(const Modes& modes, const Axis& axis, int64_t i) {
  const auto x = static_cast<double>(i);
  const auto from = static_cast<double>(axis.from);
  const auto to = static_cast<double>(axis.to);
  if (modes.coordinates == "align_corners" && axis.is_scaled) {  // by the size before it is rounded
    const double exact = from * axis.scale;
    return exact > 1 ? x * (from - 1) / (exact - 1) : 0;
  }
  if (modes.coordinates == "align_corners") return to > 1 ? x * (from - 1) / (to - 1) : 0;
  if (modes.coordinates == "asymmetric") return x / axis.scale;
  if (modes.coordinates == "pytorch_half_pixel") return to > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
  if (modes.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (modes.coordinates == "half_pixel_symmetric") {
    const double adjustment = to / (axis.scale * from);
    const double centre = from / 2;
    return centre * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
  }
  if (modes.coordinates == "tf_crop_and_resize") {
    if (to <= 1) return 0.5 * (axis.roi_start + axis.roi_end) * (from - 1);
    return axis.roi_start * (from - 1) + x * (axis.roi_end - axis.roi_start) * (from - 1) / (to - 1);
  }
  return (x + 0.5) / axis.scale - 0.5;
}

int64_t nearest_place(const std::string& how, double x) {
  if (how == "floor") return static_cast<int64_t>(std::floor(x));
  if (how == "ceil") return static_cast<int64_t>(std::ceil(x));
  const double below = std::floor(x);
  if (x - below == 0.5) return static_cast<int64_t>(how == "round_prefer_ceil" ? below + 1 : below);
  return static_cast<int64_t>(std::floor(x + 0.5));
}

double cubic_weight(double a, double distance) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

double linear_weight(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

void add_interpolated(const Modes& modes, const Axis& axis, int64_t i, ResizeLine& line) {
  const double x = coordinate(modes, axis, i);
  const double shrink = modes.antialias ? std::min(1.0, axis.scale) : 1;
  const double reach = (modes.mode == "cubic" ? 2 : 1) / shrink;
  const auto first = static_cast<int64_t>(std::ceil(x - reach));
  const auto last = static_cast<int64_t>(std::floor(x + reach));
  const auto weight_at = [&](int64_t place) {
    const double distance = (static_cast<double>(place) - x) * shrink;
    return modes.mode == "cubic" ? cubic_weight(modes.cubic, distance) : linear_weight(distance);
  };
  double sum = 0;
  for (int64_t place = first; place <= last; ++place) {
    const bool outside = place < 0 || place >= axis.from;
    if (!(outside && modes.exclude_outside)) sum += weight_at(place);
  }
  for (int64_t place = first; place <= last; ++place) {
    const bool outside = place < 0 || place >= axis.from;
    if (outside && modes.exclude_outside) continue;
    const int64_t at = std::clamp<int64_t>(place, 0, axis.from - 1);
    line.weights[static_cast<size_t>(at * axis.to + i)] += weight_at(place) / sum;
  }
}

ResizeLine line_of(const NodeCall& call, const Modes& modes, const Axis& axis, int place) {
  ResizeLine line{place, axis.from, axis.to};
  call.require(axis.from > 0 && axis.to > 0, "an empty dimension");
  call.require(axis.to <= kMostPlaces, "a dimension this large");
  if (modes.mode == "nearest") {
    for (int64_t i = 0; i < axis.to; ++i) {
      const int64_t at = nearest_place(modes.nearest, coordinate(modes, axis, i));
      line.places.push_back(std::clamp<int64_t>(at, 0, axis.from - 1));
    }
    return line;
  }
  call.require(axis.to <= kMostPlaces / axis.from, "a dimension this large");
  line.weights.assign(static_cast<size_t>(axis.from * axis.to), 0);
  for (int64_t i = 0; i < axis.to; ++i) add_interpolated(modes, axis, i, line);
  return line;
}

Modes modes_of(const NodeCall& call) {
  const bool is_old = call.opset < 11;
  Modes modes{call.text("mode", "nearest"),
              call.text("coordinate_transformation_mode", is_old ? "asymmetric" : "half_pixel"),
              call.text("nearest_mode", is_old ? "floor" : "round_prefer_floor"),
              call.text("keep_aspect_ratio_policy", "stretch"),
              call.real("cubic_coeff_a", -0.75),
              call.flag("exclude_outside"),
              call.flag("antialias")};
  if (modes.mode == "bilinear" || modes.mode == "trilinear") modes.mode = "linear";
  call.require(modes.mode == "nearest" || modes.mode == "linear" || modes.mode == "cubic", "a mode that is not known");
  call.require(modes.coordinates != "tf_crop_and_resize", "tf_crop_and_resize");
  return modes;
}

}  // namespace

bool ResizeLine::is_same() const {
  if (from != to) return false;
  for (int64_t i = 0; i < to; ++i) {
    if (!places.empty() ? places[static_cast<size_t>(i)] != i : weights[static_cast<size_t>(i * to + i)] != 1) {
      return false;
    }
  }
  return true;
}

std::vector<ResizeLine> resize_lines(const NodeCall& call) {
  const Modes modes = modes_of(call);
  const Dims shape = call.shape(0);
  const int scales_at = call.opset < 11 ? 1 : 2;
  std::vector<int64_t> axes = call.integers("axes");
  if (axes.empty()) {
    for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  }
  std::vector<double> scales = call.has(scales_at) ? call.reals_of(scales_at, "the scales") : call.reals("scales");
  for (const double scale : scales) {
    call.require(scale > 0 && scale <= kMostScale, "a scale that is no number above 0, or above a million");
  }
  std::vector<Dim> sizes;
  if (scales.empty() && call.has(3)) sizes = call.dims_of(3, "the sizes");
  if (scales.size() != axes.size() && sizes.size() != axes.size()) {
    call.reject("there must be a scale or a size for each axis");
  }
  if (!sizes.empty() && modes.policy != "stretch") {  // one scale for all
    double common = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t old = shape[call.axis(axes[i], shape.rank())].constant();
      call.require(old > 0, "an axis without elements");
      const double ratio = static_cast<double>(sizes[i].constant()) / static_cast<double>(old);
      const bool smaller = modes.policy == "not_larger" ? ratio < common : ratio > common;
      if (i == 0 || smaller) common = ratio;
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto old = static_cast<double>(shape[call.axis(axes[i], shape.rank())].constant());
      scales.push_back(common);
      sizes[i] = static_cast<int64_t>(std::floor(common * old + 0.5));
    }
  }
  std::vector<ResizeLine> lines;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int at = call.axis(axes[i], shape.rank());
    if (sizes.empty() ? scales[i] == 1 : sizes[i] == shape[at]) continue;
    const int64_t from = shape[at].constant();
    call.require(from > 0, "an axis without elements");
    Axis axis{from, 0, 1, sizes.empty()};
    const double scaled = sizes.empty() ? std::floor(static_cast<double>(from) * scales[i]) : 0;
    call.require(scaled <= static_cast<double>(kMostPlaces), "a dimension this large");
    axis.to = sizes.empty() ? static_cast<int64_t>(scaled) : sizes[i].constant();
    axis.scale = scales.empty() ? static_cast<double>(axis.to) / static_cast<double>(from) : scales[i];
    lines.push_back(line_of(call, modes, axis, at));
  }
  return lines;
}

}  // namespace plimsoll::models::onnx_import
