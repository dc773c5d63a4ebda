// Amounts of named resources, for requests, totals, and free amounts. Ordered by name; zero amounts
// are dropped.
// Thread: owner (plain values).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quantity.h"

namespace mobula::internal {

namespace resource {
inline constexpr std::string_view cpu = "CPU";
inline constexpr std::string_view gpu = "GPU";
inline constexpr std::string_view memory = "memory";
inline constexpr std::string_view object_store_memory = "object_store_memory";
inline constexpr std::string_view neuron_cores = "neuron_cores";
inline constexpr std::string_view accelerator_prefix = "accelerator_type:";
// Units that a request for one accelerator type allocates: 0.001, so that the type never limits.
inline constexpr std::int64_t accelerator_units = 10;
}  // namespace resource

// True for accelerators (accelerator_vendor.h), which every node counts in numbered instances with
// ids. A node may declare custom resources in the same way: ResourceShape::unit.
bool is_unit_instance(std::string_view name);

class ResourceSet {
 public:
  // few entries: a contiguous array is the fastest to search
  using Amounts = std::vector<std::pair<std::string, Quantity>>;

  ResourceSet() = default;
  ResourceSet(std::initializer_list<std::pair<std::string, Quantity>> amounts);

  // 0 for an absent name.
  Quantity get(std::string_view name) const;
  bool has(std::string_view name) const { return get(name) != Quantity(); }
  void set(std::string_view name, Quantity amount);
  void add(std::string_view name, Quantity amount);
  void add(const ResourceSet& other);
  bool empty() const { return amounts_.empty(); }
  // Ordered by name.
  const Amounts& amounts() const { return amounts_; }
  // "CPU 1, GPU 0.5"; "nothing" when empty.
  std::string to_string() const;

  friend auto operator<=>(const ResourceSet&, const ResourceSet&) = default;

 private:
  Amounts::iterator lower_bound(std::string_view name);

  Amounts amounts_;
};

}  // namespace mobula::internal
