#include "cli/output/watch_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "cli/output/color.h"
#include "cli/output/output.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* map_title = "GPU MAP (held, by node and device)";
constexpr const char* waiting_header = "WAITING";
constexpr std::size_t bar_cells = 10;
constexpr std::size_t node_digits = 12;

struct Held {
  double amount = 0;
  double memory_bytes = 0;
};
// By node, resource, and index.
using Holdings = std::map<std::tuple<std::string, std::string, std::size_t>, Held>;

Holdings holdings_of(const Json& leases) {
  Holdings held;
  for (const auto& lease : leases.value("items", Json::array())) {
    const std::string node = lease.value("node_id", std::string());
    const Json all = lease.value("devices", Json::object());
    for (const auto& [resource, devices] : all.items()) {
      for (const auto& each : devices) {
        Held& sum = held[{node, resource, each.value("index", std::size_t{0})}];
        sum.amount += each.value("amount", 0.0);
        sum.memory_bytes += each.value("memory_bytes", 0.0);
      }
    }
  }
  return held;
}

std::string bar_of(double fraction) {
  const auto full =
      static_cast<std::size_t>(std::lround(std::clamp(fraction, 0.0, 1.0) * bar_cells));
  // Any held amount is visible.
  const std::size_t cells = fraction > 0 ? std::max<std::size_t>(full, 1) : 0;
  return "[" + std::string(cells, '#') + std::string(bar_cells - cells, '.') + "]";
}

std::string fraction_text(double amount) {
  std::string text = fmt::format("{:.2f}", amount);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Formats one device: the held fraction and, if it has memory, the held bytes.
std::string device_text(std::size_t index, const Json& device, const Held& held) {
  constexpr double gib = 1u << 30;
  const double total = device.value("total", 1.0);
  const double memory = device.value("memory_bytes", 0.0);
  std::string text =
      fmt::format("{:>2} {} {}/{}", index, bar_of(total > 0 ? held.amount / total : 0),
                  fraction_text(held.amount), fraction_text(total));
  if (memory > 0) text += fmt::format(" {:.0f}/{:.0f} GiB", held.memory_bytes / gib, memory / gib);
  return text;
}

std::string map_of(const Json& nodes, const Json& leases, std::size_t rows, bool colored) {
  const Holdings held = holdings_of(leases);
  std::string text;
  std::size_t shown = 0;
  std::size_t left_out = 0;
  for (const auto& node : nodes.value("items", Json::array())) {
    const std::string id = node.value("node_id", std::string());
    const Json all = node.value("devices", Json::object());
    for (const auto& [resource, devices] : all.items()) {
      if (resource != "GPU" || node.value("state", std::string()) == "DEAD" || devices.empty())
        continue;
      if (shown >= rows) {
        ++left_out;
        continue;
      }
      ++shown;
      std::string line = fmt::format("{:<{}} ", id.substr(0, node_digits), node_digits);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const auto at = held.find({id, resource, i});
        line += (i == 0 ? " " : "  ") +
                device_text(i, devices[i], at == held.end() ? Held() : at->second);
      }
      text += line + "\n";
    }
  }
  if (left_out > 0) text += fmt::format("and {} more nodes with GPUs\n", left_out);
  return text.empty()
             ? text
             : "\n" + (colored ? painted(map_title, Paint::bold) : map_title) + "\n" + text;
}

}  // namespace

std::string format_watch(const Json& status, const Json& nodes, const Json& leases,
                         std::size_t rows, bool colored) {
  std::string text = format_status(status, colored);
  if (!nodes.is_object() || !leases.is_object()) return text;
  const std::string map = map_of(nodes, leases, rows, colored);
  // Waiting requests come last, because their number grows.
  const std::size_t at =
      text.find("\n" + (colored ? painted(waiting_header, Paint::bold) : waiting_header));
  return at == std::string::npos ? text + map : text.substr(0, at) + map + text.substr(at);
}

std::string cut_to_screen(const std::string& text, std::size_t rows, std::size_t columns) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.push_back(cut_to_width(text.substr(from, end - from), columns));
    from = end + 1;
  }
  if (rows > 0 && lines.size() > rows) {
    const std::size_t missing = lines.size() - rows + 1;
    lines.resize(rows);
    lines.back() = cut_to_width(fmt::format("... {} more lines", missing), columns);
  }
  std::string cut;
  for (const auto& line : lines) cut += line + "\n";
  return cut;
}

}  // namespace mobula::internal::cli
