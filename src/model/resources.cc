#include "model/resources.h"

#include "model/accelerator_vendor.h"

namespace mobula::internal {
bool is_unit_instance(std::string_view name) { return vendor_of_resource(name) != nullptr; }

bool allows_fractions(std::string_view name) {
  const VendorRow* vendor = vendor_of_resource(name);
  return vendor == nullptr || vendor->fractions;
}

ResourceSet::ResourceSet(std::initializer_list<std::pair<std::string, Quantity>> amounts) {
  for (const auto& [name, amount] : amounts) add(name, amount);
}

Quantity ResourceSet::get(std::string_view name) const {
  const auto at = amounts_.find(name);
  return at == amounts_.end() ? Quantity() : at->second;
}

void ResourceSet::set(std::string_view name, Quantity amount) {
  const auto at = amounts_.find(name);
  if (amount == Quantity()) {
    if (at != amounts_.end()) amounts_.erase(at);
  } else if (at != amounts_.end()) {
    at->second = amount;
  } else {
    amounts_.emplace(name, amount);
  }
}

void ResourceSet::add(std::string_view name, Quantity amount) {
  const auto at = amounts_.find(name);
  if (at == amounts_.end()) return set(name, amount);
  at->second += amount;
  if (at->second == Quantity()) amounts_.erase(at);
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
