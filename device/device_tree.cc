#include "device/device_tree.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "device/cgroup.h"

namespace mobula::internal {
namespace {

namespace fs = std::filesystem;

// Reads a file such as "0x1002\n".
std::uint32_t hex_file(const fs::path& path) {
  std::string text = small_file(path).value_or("");
  if (text.starts_with("0x")) text.erase(0, 2);
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

std::vector<PciFunction> pci_functions_of(const std::string& sys, std::uint32_t vendor) {
  std::vector<PciFunction> found;
  std::error_code error;
  fs::directory_iterator at(sys + "/bus/pci/devices", error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const fs::path directory = at->path();
    if (hex_file(directory / "vendor") != vendor) continue;
    found.push_back({.bus_id = directory.filename(),
                     .vendor = vendor,
                     .device = hex_file(directory / "device"),
                     .device_class = hex_file(directory / "class") >> 8});
  }
  std::ranges::sort(found, {}, &PciFunction::bus_id);
  return found;
}

std::vector<std::uint32_t> numbered_entries(const std::string& directory, std::string_view prefix,
                                            bool directories_too) {
  std::vector<std::uint32_t> numbers;
  std::error_code error;
  fs::directory_iterator at(directory, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    std::error_code unreadable;
    if (!directories_too && at->is_directory(unreadable)) continue;
    std::uint32_t number = 0;
    const char* end_of_name = name.data() + name.size();
    const auto read = std::from_chars(name.data() + prefix.size(), end_of_name, number);
    if (read.ec == std::errc() && read.ptr == end_of_name) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

std::uint64_t property_in(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return 0;
}

}  // namespace mobula::internal
