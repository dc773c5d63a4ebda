// Figures of the cluster over time, for charts that begin before a page opens: one sample per
// second for ten minutes, and one per ten seconds for six hours. Samples are taken only if the head
// serves pages, so a cluster without pages has no cost.
// Thread: owner (one HeadCore). Memory: at most 64 series of 2,760 samples (700 KB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::head {

struct HeadTables;

// Samples at equal distances, the oldest first. A row has the values of the series that existed
// then, in their order.
struct SampleRing {
  Duration interval;
  std::size_t capacity;
  std::deque<std::vector<float>> rows{};
};

class FigureHistory {
 public:
  static constexpr std::size_t max_series = 64;
  static constexpr std::uint64_t samples_per_coarse = 10;  // 1 s and 10 s

  explicit FigureHistory(HeadTables& tables) : tables_(tables) {}

  // Takes the first sample at the next tick. Call it if the head serves pages.
  void begin();
  void tick();
  std::optional<Time> next_deadline() const { return due_; }

  // Document of the last ten minutes, or of six hours if `range` is "6h": names of the series, the
  // interval and the age of the last sample in ms, and for each series its values, the oldest
  // first; null where a series did not exist. Errors: invalid_argument for another range.
  Result<std::string> json(const std::string& range) const;
  // Processors in use between the latest two samples of each node.
  const std::map<NodeId, double>& busy_cpus() const { return busy_cpus_; }

 private:
  struct NodeUse {
    Duration at{};
    Duration cpu{};
  };

  void set(const std::string& series, double value);
  void sample();
  void sample_nodes();

  HeadTables& tables_;
  std::optional<Time> due_;
  Time sampled_at_;
  std::uint64_t samples_ = 0;
  std::vector<std::string> names_;            // by index of the series
  std::map<std::string, std::size_t> index_;  // by name
  std::vector<float> row_;                    // values of the sample in progress
  std::map<NodeId, NodeUse> use_;             // at the latest two reports of a node
  std::map<NodeId, double> busy_cpus_;
  SampleRing fine_{std::chrono::seconds(1), 600};
  SampleRing coarse_{std::chrono::seconds(samples_per_coarse), 2160};
};

}  // namespace mobula::internal::head
