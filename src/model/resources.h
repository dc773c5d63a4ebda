// Amounts of named resources, as requests, totals and free amounts speak of them. Ordered by name,
// zero amounts are dropped. Plain values; not thread-safe.
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
// What a request for one accelerator type books: 0.001, so that it never limits.
inline constexpr std::int64_t accelerator_units = 10;
}  // namespace resource

// True for the resources of accelerators (accelerator_vendor.h), counted in numbered instances with
// ids on every node. Custom ones may be so, too, where a node says it: ResourceShape::unit.
bool is_unit_instance(std::string_view name);
// True where a request may name less than one instance.
bool allows_fractions(std::string_view name);

class ResourceSet {
 public:
  using Amounts = std::vector<std::pair<std::string, Quantity>>;  // few: side by side they are found fastest

  ResourceSet() = default;
  ResourceSet(std::initializer_list<std::pair<std::string, Quantity>> amounts);

  // 0 for a name that is not there.
  Quantity get(std::string_view name) const;
  bool has(std::string_view name) const { return get(name) != Quantity(); }
  void set(std::string_view name, Quantity amount);
  void add(std::string_view name, Quantity amount);
  void add(const ResourceSet& other);
  bool empty() const { return amounts_.empty(); }
  // In the order of their names.
  const Amounts& amounts() const { return amounts_; }
  // "CPU 1, GPU 0.5"; "nothing" when empty.
  std::string to_string() const;

  friend auto operator<=>(const ResourceSet&, const ResourceSet&) = default;

 private:
  Amounts::iterator place(std::string_view name);

  Amounts amounts_;
};

}  // namespace mobula::internal
