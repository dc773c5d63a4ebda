#include "head/http/span_rows.h"

#include <algorithm>
#include <map>
#include <string>

namespace mobula::internal::head {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration window = 60s;
constexpr std::size_t max_rows = 20'000;  // calls and transfers of one document

std::int64_t us(Duration span) { return span / std::chrono::microseconds(1); }

class RowWriter {
 public:
  Json ran_of(const SpansReply& spans) {
    Json rows = Json::array();
    for (auto span = spans.ran.rbegin(); span != spans.ran.rend(); ++span) {
      if (span->ended > window || !take_row()) continue;
      rows.push_back(Json::array({spans.wall_us - us(span->began), spans.wall_us - us(span->ended),
                                  span->name, span->failed ? 1 : 0, span->task.hex()}));
    }
    return rows;
  }

  Json transfers_of(const SpansReply& spans) {
    Json rows = Json::array();
    for (const auto& fact : spans.transfers) {
      if (fact.ago > window || !take_row()) continue;
      const std::int64_t end = spans.wall_us - us(fact.ago);
      rows.push_back(Json::array({end - us(fact.moved), end, std::string(to_string(fact.path)),
                                  fact.size_bytes, fact.failed ? 1 : 0}));
    }
    return rows;
  }

  std::size_t left_out() const { return left_out_; }

 private:
  bool take_row() {
    if (rows_ >= max_rows) {
      ++left_out_;
      return false;
    }
    ++rows_;
    return true;
  }

  std::size_t rows_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace

void add_span_rows(Json& timeline, const std::vector<ProcessSpans>& spans) {
  std::map<std::string, const SpansReply*> by_process;
  std::int64_t now_us = 0;
  for (const auto& each : spans) {
    by_process.emplace(each.process.hex(), &each.spans);
    now_us = std::max(now_us, each.spans.wall_us);
  }
  RowWriter writer;
  for (auto& item : timeline["processes"]) {
    const auto at = by_process.find(item.value("process_id", std::string()));
    if (at == by_process.end()) continue;
    item["names"] = at->second->names;
    item["ran"] = writer.ran_of(*at->second);
    item["transfers"] = writer.transfers_of(*at->second);
  }
  timeline["now_us"] = now_us;
  timeline["left_out"] = writer.left_out();
}

}  // namespace mobula::internal::head
