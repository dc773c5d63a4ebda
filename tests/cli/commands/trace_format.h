// Checks a file against Chrome's Trace Event Format in its JSON object form. Supports the kinds of
// events that Mobula writes: metadata (M), complete events (X), nestable asynchronous events (b,
// e), and flows (s, t, f).
// Thread: any. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace mobula::test {

class TraceFormat {
 public:
  using Json = nlohmann::json;

  // Returns the faults; empty if the file is valid.
  static std::vector<std::string> faults_of(const Json& trace) {
    TraceFormat format;
    format.check_file(trace);
    return std::move(format.faults_);
  }

 private:
  using Track = std::pair<std::int64_t, std::int64_t>;  // pid, tid
  struct Slice {
    double begin = 0;
    double end = 0;
  };

  void fault(const std::string& what, const Json& event) {
    if (faults_.size() < 20) faults_.push_back(what + ": " + event.dump());
  }

  void check_file(const Json& trace) {
    if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
      return fault("it is no object with an array traceEvents", Json());
    }
    const std::string unit = trace.value("displayTimeUnit", "ms");
    if (unit != "ms" && unit != "ns") fault("displayTimeUnit is neither ms nor ns", unit);
    if (trace.contains("otherData") && !trace["otherData"].is_object())
      fault("otherData is no object", trace["otherData"]);
    for (const auto& event : trace["traceEvents"]) check_event(event);
    for (auto& [track, slices] : slices_) nest(slices);
    for (const auto& [key, begun] : waits_) {
      if (!begun.empty()) fault("a wait begins and never ends", begun.back());
    }
    for (const auto& [id, steps] : flows_) check_flow(steps);
  }

  void check_event(const Json& event) {
    if (!event.is_object() || !event.contains("ph") || !event["ph"].is_string() ||
        event["ph"].get<std::string>().size() != 1) {
      return fault("it has no phase of one letter", event);
    }
    for (const char* number : {"pid", "tid"}) {
      if (!event.contains(number) || !event[number].is_number_integer())
        return fault(std::string("no whole number ") + number, event);
    }
    if (!event.contains("name") || !event["name"].is_string())
      return fault("it has no name", event);
    if (event.contains("args") && !event["args"].is_object())
      return fault("args is no object", event);
    const char phase = event["ph"].get<std::string>().front();
    if (phase == 'M') return check_metadata(event);
    if (!event.contains("ts") || !event["ts"].is_number() || event["ts"].get<double>() < 0)
      return fault("it has no time", event);
    if (!event.contains("cat") || !event["cat"].is_string() ||
        event["cat"].get<std::string>().empty())
      return fault("it has no category", event);
    const Track track{event["pid"].get<std::int64_t>(), event["tid"].get<std::int64_t>()};
    const double ts = event["ts"];
    if (const auto last = times_.find(track); last != times_.end() && ts < last->second)
      fault("time goes back in its track", event);
    times_[track] = ts;
    if (phase == 'X') {
      if (!event.contains("dur") || !event["dur"].is_number() || event["dur"].get<double>() < 0)
        return fault("it has no duration", event);
      slices_[track].push_back({ts, ts + event["dur"].get<double>()});
      return;
    }
    if (!std::set<char>{'b', 'e', 's', 't', 'f'}.contains(phase))
      return fault("a phase that is not expected", event);
    if (!event.contains("id") || !(event["id"].is_string() || event["id"].is_number()))
      return fault("it has no id", event);
    const std::string id = event["cat"].get<std::string>() + " " + event["id"].dump();
    if (phase == 'b') {
      waits_[id].push_back(event);
    } else if (phase == 'e') {
      auto& begun = waits_[id];
      if (begun.empty() || begun.back()["name"] != event["name"] ||
          begun.back()["ts"].get<double>() > ts)
        return fault("it ends what has not begun", event);
      begun.pop_back();
    } else {
      flows_[id].push_back(event);
    }
  }

  void check_metadata(const Json& event) {
    const std::string name = event["name"];
    const bool names = name == "process_name" || name == "thread_name";
    const bool sorts = name == "process_sort_index" || name == "thread_sort_index";
    if (!event.contains("args") || (names && !event["args"].value("name", Json()).is_string()) ||
        (sorts && !event["args"].value("sort_index", Json()).is_number_integer()) ||
        (!names && !sorts)) {
      fault("metadata without what it is about", event);
    }
  }

  // Slices of one track are nested or disjoint. Times are microseconds with three digits.
  void nest(std::vector<Slice>& slices) {
    constexpr double exact = 0.0005;
    std::ranges::stable_sort(slices, [](const Slice& a, const Slice& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<double> open;
    for (const auto& slice : slices) {
      while (!open.empty() && open.back() <= slice.begin + exact) open.pop_back();
      if (!open.empty() && slice.end > open.back() + exact)
        fault("a slice overlaps another of its track", {slice.begin, slice.end, open.back()});
      open.push_back(slice.end);
    }
  }

  // One start, then steps, then one end, all with one name and each within a slice of its track.
  void check_flow(const std::vector<Json>& steps) {
    std::map<std::string, int> phases;
    for (const auto& step : steps) {
      ++phases[step["ph"]];
      if (step["name"] != steps.front()["name"]) fault("a flow changes its name", step);
      if (step["ph"] == "f" && step.value("bp", "") != "e")
        fault("an end that binds to the next slice", step);
      const Track track{step["pid"].get<std::int64_t>(), step["tid"].get<std::int64_t>()};
      const double ts = step["ts"];
      constexpr double exact = 0.0005;
      const bool within = std::ranges::any_of(slices_[track], [&](const Slice& each) {
        return each.begin <= ts + exact && ts <= each.end + exact;
      });
      if (!within) fault("a flow that no slice of its track encloses", step);
    }
    if (phases["s"] != 1 || phases["f"] != 1)
      fault("a flow without one start and one end", steps.front());
  }

  std::vector<std::string> faults_;
  std::map<Track, double> times_;
  std::map<Track, std::vector<Slice>> slices_;
  std::map<std::string, std::vector<Json>> waits_;
  std::map<std::string, std::vector<Json>> flows_;
};

}  // namespace mobula::test
