// Sums of amounts by resource that may exceed the range of a Quantity, such as bytes of many large
// nodes. Additions and subtractions are exact; reads saturate at the largest Quantity.
// Thread: owner.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/model/resources.h"

namespace mobula::internal::scheduler {

// a + b, saturated at the largest Quantity; b is not negative.
inline Quantity sum_or_most(Quantity a, Quantity b) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  return a.units() > most - b.units() ? Quantity::from_units(most) : a + b;
}

class AmountSums {
 public:
  // `amount` may be negative. Its absolute value is in the range of a node or request.
  void add(std::string_view name, Quantity amount) {
    const auto at = std::ranges::find(sums_, name, &Sum::name);
    auto& sum = at != sums_.end() ? *at : sums_.emplace_back(Sum{std::string(name), 0, 0});
    sum.units += amount.units();
    if (sum.units >= span) {
      sum.units -= span;
      ++sum.spans;
    } else if (sum.units < 0 && sum.spans > 0) {
      sum.units += span;
      --sum.spans;
    }
    if (sum.units == 0 && sum.spans == 0) sums_.erase(sums_.begin() + (&sum - sums_.data()));
  }
  void add(const ResourceSet& amounts) {
    for (const auto& [name, amount] : amounts.amounts()) add(name, amount);
  }
  void subtract(const ResourceSet& amounts) {
    for (const auto& [name, amount] : amounts.amounts()) add(name, -amount);
  }

  Quantity get(std::string_view name) const {
    const auto at = std::ranges::find(sums_, name, &Sum::name);
    return at == sums_.end() ? Quantity() : amount_of(*at);
  }
  // Calls visit(name, Quantity) for each resource.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& sum : sums_) visit(sum.name, amount_of(sum));
  }
  ResourceSet amounts() const {
    ResourceSet all;
    for_each([&](const std::string& name, Quantity amount) { all.set(name, amount); });
    return all;
  }
  // Independent of the order of additions.
  friend bool operator==(const AmountSums& a, const AmountSums& b) {
    return std::ranges::is_permutation(a.sums_, b.sums_);
  }

 private:
  static constexpr std::int64_t span = std::int64_t{1} << 62;
  struct Sum {
    std::string name;
    std::int64_t units = 0;  // below `span`
    std::int64_t spans = 0;
    friend bool operator==(const Sum&, const Sum&) = default;
  };
  static Quantity amount_of(const Sum& sum) {
    if (sum.spans > 1) return Quantity::from_units(std::numeric_limits<std::int64_t>::max());
    return Quantity::from_units(sum.units + sum.spans * span);
  }

  std::vector<Sum> sums_;  // few entries: a contiguous array is the fastest to search
};

}  // namespace mobula::internal::scheduler
