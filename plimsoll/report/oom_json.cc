#include "plimsoll/report/oom_json.h"

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

Json live_by_category(const OomReport& report) {
  Json list = Json::array();
  for (const Category category : kAllCategories) {
    const int64_t bytes = report.live_by_category[static_cast<size_t>(category)];
    if (bytes > 0) list.push_back({{"category", name(category)}, {"live_bytes", bytes}});
  }
  return list;
}

Json largest_live(const OomReport& report) {
  Json list = Json::array();
  for (const LiveBlock& block : report.largest_live) {
    list.push_back({{"bytes", block.bytes}, {"category", name(block.category)}, {"tag", block.tag}});
  }
  return list;
}

}  // namespace

Json to_json(const OomReport& report) {
  Json json = {{"error", "out of memory"},
               {"message", report.first_line()},
               {"requested_bytes", report.requested_bytes},
               {"tag", report.tag},
               {"category", name(report.category)},
               {"op", report.op},
               {"device", report.device},
               {"allocator", report.allocator},
               {"budget_bytes", report.budget.bytes},
               {"budget_source", report.budget.source},
               {"live_bytes", report.live_bytes},
               {"reserved_bytes", report.reserved_bytes},
               {"largest_free_bytes", report.largest_free_bytes},
               {"live_by_category", live_by_category(report)},
               {"largest_live", largest_live(report)},
               {"tried", report.tried},
               {"help", report.help}};
  if (report.spec) json["spec"] = {{"dtype", name(report.spec->dtype)}, {"shape", report.spec->shape.dims()}};
  return json;
}

}  // namespace plimsoll
