#include "device/near_gpu.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <tuple>

#include <fmt/format.h>

namespace mobula::internal {
namespace {

// Address bytes for bitwise comparison; empty for invalid text.
std::vector<std::uint8_t> bytes_of(const std::string& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1)
    return {bytes.begin(), bytes.begin() + 4};
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1)
    return {bytes.begin(), bytes.end()};
  return {};
}

bool on_one_network(const InterfaceFacts& a, const InterfaceFacts& b) {
  const auto first = bytes_of(a.address), second = bytes_of(b.address);
  if (first.empty() || first.size() != second.size()) return false;
  if (a.prefix_bits != b.prefix_bits || a.prefix_bits == 0 || a.prefix_bits > 8 * first.size())
    return false;
  for (unsigned bit = 0; bit < a.prefix_bits; ++bit) {
    const unsigned mask = 0x80U >> (bit % 8);
    if ((first[bit / 8] & mask) != (second[bit / 8] & mask)) return false;
  }
  return true;
}

// Sum over all GPUs; unknown distances count as far.
unsigned distance_of(const MachineLocality& machine, const std::string& interface,
                     const std::vector<std::string>& gpus) {
  unsigned sum = 0;
  const auto known = machine.interfaces.find(interface);
  for (const std::string& gpu : gpus) {
    Nearness here = Nearness::elsewhere;
    if (known != machine.interfaces.end()) {
      const auto at = known->second.find(gpu);
      if (at != known->second.end()) here = at->second;
    }
    sum += static_cast<unsigned>(here);
  }
  return sum;
}

}  // namespace

std::string to_text(const CpuList& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    text += text.empty() ? "" : ",";
    text += end == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[end]);
    i = end + 1;
  }
  return text;
}

CpuList cpus_to_use(const CpuList& near, const CpuList& allowed) {
  CpuList both;
  std::ranges::set_intersection(near, allowed, std::back_inserter(both));
  return both.size() == allowed.size() ? CpuList() : both;
}

std::optional<InterfaceFacts> interface_to_use(const MachineLocality& machine,
                                               const InterfaceQuestion& question) {
  if (question.gpus.empty()) return std::nullopt;
  const auto bound =
      std::ranges::find(question.interfaces, question.bound, &InterfaceFacts::address);
  if (bound == question.interfaces.end()) return std::nullopt;
  const unsigned of_bound = distance_of(machine, bound->name, question.gpus);
  std::optional<InterfaceFacts> best;
  unsigned of_best = of_bound;
  for (const InterfaceFacts& each : question.interfaces) {
    if (!each.up || each.name == bound->name || !machine.interfaces.contains(each.name)) continue;
    if (!on_one_network(each, *bound)) continue;
    const unsigned distance = distance_of(machine, each.name, question.gpus);
    if (distance > of_best || distance == of_bound) continue;
    if (best && std::tie(of_best, best->name) <= std::tie(distance, each.name)) continue;
    best = each;
    of_best = distance;
  }
  return best;
}

}  // namespace mobula::internal
