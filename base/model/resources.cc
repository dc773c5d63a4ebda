#include "base/model/resources.h"

#include <algorithm>

#include "base/model/accelerator_vendor.h"

namespace mobula::internal {
bool is_unit_instance(std::string_view name) { return vendor_of_resource(name) != nullptr; }

ResourceSet::ResourceSet(std::initializer_list<std::pair<std::string, Quantity>> amounts) {
  for (const auto& [name, amount] : amounts) add(name, amount);
}

ResourceSet::Amounts::iterator ResourceSet::lower_bound(std::string_view name) {
  return std::ranges::lower_bound(amounts_, name, {}, &Amounts::value_type::first);
}

Quantity ResourceSet::get(std::string_view name) const {
  for (const auto& [each, amount] : amounts_) {
    if (each == name) return amount;
  }
  return {};
}

void ResourceSet::set(std::string_view name, Quantity amount) {
  const auto at = lower_bound(name);
  const bool known = at != amounts_.end() && at->first == name;
  if (known && amount == Quantity()) {
    amounts_.erase(at);
  } else if (known) {
    at->second = amount;
  } else if (amount != Quantity()) {
    amounts_.emplace(at, name, amount);
  }
}

void ResourceSet::add(std::string_view name, Quantity amount) {
  for (auto at = amounts_.begin(); at != amounts_.end(); ++at) {
    if (at->first != name) continue;
    at->second += amount;
    if (at->second == Quantity()) amounts_.erase(at);
    return;
  }
  set(name, amount);
}

void ResourceSet::add(const ResourceSet& other) {
  for (const auto& [name, amount] : other.amounts_) add(name, amount);
}

std::string ResourceSet::to_string() const {
  if (amounts_.empty()) return "nothing";
  std::string text;
  for (const auto& [name, amount] : amounts_) {
    if (!text.empty()) text += ", ";
    text += name + " " + amount.to_string();
  }
  return text;
}

}  // namespace mobula::internal
