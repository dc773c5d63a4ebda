#include "base/coverage_mark.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "base/check.h"

namespace mobula::internal {
namespace {

struct MarkTable {
  static constexpr std::size_t capacity = 512;
  std::array<const char*, capacity> names{};
  std::array<std::atomic<std::uint64_t>, capacity> counts{};
  std::size_t size = 0;
};

// Filled by static initializers, which run sequentially; counts change from any thread.
MarkTable& table() {
  static MarkTable marks;
  return marks;
}

}  // namespace

CoverageMark::CoverageMark(const char* name) : index_(table().size) {
  MOBULA_CHECK(index_ < MarkTable::capacity, "more coverage marks than the table holds");
  table().names[index_] = name;
  ++table().size;
}

void CoverageMark::hit() const { table().counts[index_].fetch_add(1, std::memory_order_relaxed); }

std::map<std::string, std::uint64_t> mark_counts() {
  std::map<std::string, std::uint64_t> counts;
  for (std::size_t i = 0; i < table().size; ++i) {
    counts[table().names[i]] += table().counts[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace mobula::internal
