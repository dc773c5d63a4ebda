// Detection of accelerators that are not GPUs, and of GPUs whose drivers expose only numbered
// files: TPUs, Gaudi, Ascend, Rebellions, Tenstorrent, Mobilint, Biren, Cambricon.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "device/detection/detect_vendors.h"
#include "device/detection/program_output.h"
#include "device/device_tree.h"

namespace mobula::internal {
namespace {

constexpr std::uint32_t google_pci_vendor = 0x1ae0;
constexpr std::uint32_t huawei_pci_vendor = 0x19e5;

struct Model {
  std::uint32_t device;
  std::string_view type;
};

// From JAX, hardware_utils.py. V2 and V3 share an id, so only TPU_ACCELERATOR_TYPE distinguishes
// them.
constexpr std::array<Model, 4> tpu_models{
    {{0x005e, "TPU-V4"}, {0x0062, "TPU-V5P"}, {0x0063, "TPU-V5LITEPOD"}, {0x006f, "TPU-V6E"}}};
// From the PCI ID repository.
constexpr std::array<Model, 2> ascend_models{{{0xd801, "Ascend910"}, {0xd802, "Ascend910B"}}};

// Type of the functions of `vendor` if all have the same type.
std::vector<std::string> common_type(const std::string& sys, std::uint32_t vendor,
                                     std::span<const Model> models) {
  std::vector<std::string> types;
  for (const PciFunction& each : pci_functions_of(sys, vendor)) {
    const auto at = std::ranges::find(models, each.device, &Model::device);
    if (at == models.end()) continue;
    if (std::ranges::find(types, at->type) == types.end()) types.emplace_back(at->type);
  }
  if (types.size() > 1) types.clear();
  return types;
}

// One device per number; the number is its id, too.
Detected devices_of(const std::vector<std::uint32_t>& numbers,
                    std::vector<std::string> types = {}) {
  Detected found;
  for (const auto number : numbers) {
    found.devices.push_back({.id = std::to_string(number), .types = types});
  }
  return found;
}

// "v5litepod-16" becomes TPU-V5LITEPOD.
std::vector<std::string> tpu_type_in(const std::string& accelerator_type) {
  const auto dash = accelerator_type.find('-');
  if (!accelerator_type.starts_with('v') || dash == std::string::npos) return {};
  std::string type = "TPU-" + accelerator_type.substr(0, dash);
  std::ranges::transform(type, type.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return {type};
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// "HL-225" is a Gaudi 2; the names are those of Ray.
std::vector<std::string> gaudi_type(const std::string& product) {
  if (product.starts_with("HL-20")) return {"Intel-GAUDI"};
  if (product.starts_with("HL-2")) return {"Intel-GAUDI2"};
  if (product.starts_with("HL-3")) return {"Intel-GAUDI3"};
  return {};
}

}  // namespace

Detected detect_tpu(const DetectionPaths& paths) {
  std::vector<std::uint32_t> numbers = numbered_entries(paths.dev, "accel");
  if (numbers.empty() && !pci_functions_of(paths.sys, google_pci_vendor).empty()) {
    numbers = numbered_entries(paths.dev + "/vfio", "");
    // Group numbers are arbitrary; chips are numbered from 0.
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint32_t>(i);
  }
  auto types = tpu_type_in(paths.tpu_type);
  if (types.empty()) types = common_type(paths.sys, google_pci_vendor, tpu_models);
  return devices_of(numbers, std::move(types));
}

Detected detect_gaudi(const DetectionPaths& paths) {
  Detected found;
  struct stat status {};
  if (::stat(paths.hl_smi.c_str(), &status) != 0) return found;
  const auto text = output_of_program(
      paths.hl_smi, {"-Q", "module_id,uuid,bus_id,name,memory.total", "-f", "csv,noheader,nounits"},
      paths.hl_smi_timeout);
  if (!text) {
    found.notes.push_back(text.error().text);
    return found;
  }
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line).empty()) continue;
    std::vector<std::string> fields;
    std::istringstream rest(line);
    for (std::string field; std::getline(rest, field, ',');) fields.push_back(trimmed(field));
    std::uint32_t module = 0;
    const bool numbered =
        fields.size() >= 5 &&
        std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), module).ptr ==
            fields[0].data() + fields[0].size() &&
        !fields[0].empty();
    if (!numbered) {
      found.devices.clear();
      found.notes.push_back(fmt::format("{} wrote a line that names no module: {}", paths.hl_smi,
                                        line.substr(0, 80)));
      return found;
    }
    found.devices.push_back({.product = fields[3],
                             .uuid = fields[1],
                             .pci_bus_id = fields[2],
                             .memory_bytes = std::strtoull(fields[4].c_str(), nullptr, 10) << 20,
                             .id = fields[0],
                             .types = gaudi_type(fields[3])});
  }
  std::ranges::sort(found.devices, {}, [](const AcceleratorDevice& each) {
    return std::strtoul(each.id.c_str(), nullptr, 10);
  });
  return found;
}

Detected detect_ascend(const DetectionPaths& paths) {
  return devices_of(numbered_entries(paths.dev, "davinci"),
                    common_type(paths.sys, huawei_pci_vendor, ascend_models));
}

Detected detect_rebellions(const DetectionPaths& paths) {
  return devices_of(numbered_entries(paths.dev, "rbln"));
}

Detected detect_tenstorrent(const DetectionPaths& paths) {
  return devices_of(numbered_entries(paths.dev + "/tenstorrent", ""));
}

Detected detect_mobilint(const DetectionPaths& paths) {
  std::vector<std::uint32_t> numbers = numbered_entries(paths.dev, "aries");
  for (const auto number : numbered_entries(paths.dev, "regulus")) {
    if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return devices_of(numbers);
}

Detected detect_biren(const DetectionPaths& paths) {
  return devices_of(numbered_entries(paths.dev + "/biren", "card_"));
}

Detected detect_cambricon(const DetectionPaths& paths) {
  return devices_of(numbered_entries(paths.dev, "cambricon_dev"));
}

}  // namespace mobula::internal
