// A simulated NVML. FAKE_NVML_FILE names a file with its answers, which nvmlInit_v2 reads. Fields
// are separated by '|':
//
//   driver|VERSION
//   gpu|NAME|UUID|BYTES|PCI|MIG
//   slice|NAME|UUID|BYTES   a slice of the previous gpu
//   link|REMOTE             next link of the previous gpu: "switch", "cpu", "down", or a PCI id
//   fail|FUNCTION|STATUS
//
// BYTES of "-" returns "not supported". A call before a successful init ends the process.
// FAKE_OLD_NVML builds the library of a driver without NVLink queries.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device/detection/nvml_abi.h"

namespace {

namespace abi = mobula::internal::nvml_abi;

struct FakeDevice {
  std::string name;
  std::string uuid;
  std::string bytes;
  std::string pci;
  bool mig = false;
  std::vector<std::string> links;
  std::vector<std::unique_ptr<FakeDevice>> slices;
};

struct FakeDriver {
  bool initialised = false;
  std::string version = "0.0";
  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::map<std::string, int> failures;
};

FakeDriver driver;

int enter(const char* function) {
  if (!driver.initialised) {
    std::fprintf(stderr, "fake NVML: %s before nvmlInit_v2\n", function);
    std::abort();
  }
  const auto at = driver.failures.find(function);
  return at == driver.failures.end() ? abi::success : at->second;
}

FakeDevice* of(abi::Device device) { return reinterpret_cast<FakeDevice*>(device); }
abi::Device handle(const std::unique_ptr<FakeDevice>& device) {
  return reinterpret_cast<abi::Device>(device.get());
}

int copy(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return abi::insufficient_size;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return abi::success;
}

void read_line(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, '|');) fields.push_back(field);
  fields.resize(6);
  if (fields[0] == "driver") driver.version = fields[1];
  if (fields[0] == "fail") driver.failures[fields[1]] = std::atoi(fields[2].c_str());
  if (fields[0] == "link") driver.devices.back()->links.push_back(fields[1]);
  if (fields[0] != "gpu" && fields[0] != "slice") return;
  auto device = std::make_unique<FakeDevice>();
  device->name = fields[1];
  device->uuid = fields[2];
  device->bytes = fields[3];
  device->pci = fields[4];
  device->mig = fields[5] == "1";
  auto& list = fields[0] == "gpu" ? driver.devices : driver.devices.back()->slices;
  list.push_back(std::move(device));
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  driver = FakeDriver{};
  const char* path = std::getenv("FAKE_NVML_FILE");
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string line; std::getline(file, line);) read_line(line);
  const auto failure = driver.failures.find("nvmlInit_v2");
  if (failure != driver.failures.end()) return failure->second;
  driver.initialised = true;
  return abi::success;
}

int nvmlShutdown() {
  const int status = enter("nvmlShutdown");
  driver.initialised = false;
  return status;
}

const char* nvmlErrorString(int status) {
  static std::string text;
  text = "fake status " + std::to_string(status);
  return text.c_str();
}

int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  const int status = enter("nvmlSystemGetDriverVersion");
  return status != abi::success ? status : copy(driver.version, to, size);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(driver.devices.size());
  return enter("nvmlDeviceGetCount_v2");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, abi::Device* to) {
  if (index >= driver.devices.size()) return abi::invalid_argument;
  *to = handle(driver.devices[index]);
  return enter("nvmlDeviceGetHandleByIndex_v2");
}

int nvmlDeviceGetName(abi::Device device, char* to, unsigned size) {
  const int status = enter("nvmlDeviceGetName");
  return status != abi::success ? status : copy(of(device)->name, to, size);
}

int nvmlDeviceGetUUID(abi::Device device, char* to, unsigned size) {
  const int status = enter("nvmlDeviceGetUUID");
  return status != abi::success ? status : copy(of(device)->uuid, to, size);
}

int nvmlDeviceGetMemoryInfo(abi::Device device, abi::Memory* memory) {
  if (of(device)->bytes == "-") return abi::not_supported;
  memory->total = std::strtoull(of(device)->bytes.c_str(), nullptr, 10);
  return enter("nvmlDeviceGetMemoryInfo");
}

int nvmlDeviceGetPciInfo_v3(abi::Device device, abi::PciInfo* pci) {
  const int status = enter("nvmlDeviceGetPciInfo_v3");
  return status != abi::success ? status : copy(of(device)->pci, pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetMigMode(abi::Device device, unsigned* current, unsigned* pending) {
  *current = *pending = of(device)->mig ? 1 : 0;
  return enter("nvmlDeviceGetMigMode");
}

// As on hardware: more slots than slices, and the first slot may be empty.
int nvmlDeviceGetMaxMigDeviceCount(abi::Device device, unsigned* count) {
  *count = static_cast<unsigned>(of(device)->slices.size()) + 2;
  return enter("nvmlDeviceGetMaxMigDeviceCount");
}

int nvmlDeviceGetMigDeviceHandleByIndex(abi::Device device, unsigned index, abi::Device* to) {
  const auto& slices = of(device)->slices;
  if (index == 0 || index > slices.size()) return abi::not_found;
  *to = handle(slices[index - 1]);
  return enter("nvmlDeviceGetMigDeviceHandleByIndex");
}

#ifndef FAKE_OLD_NVML

int nvmlDeviceGetNvLinkState(abi::Device device, unsigned link, int* active) {
  const auto& links = of(device)->links;
  if (links.empty()) return abi::not_supported;
  if (link >= links.size()) return abi::invalid_argument;
  *active = links[link] == "down" ? 0 : abi::link_active;
  return enter("nvmlDeviceGetNvLinkState");
}

int nvmlDeviceGetNvLinkRemoteDeviceType(abi::Device device, unsigned link, int* type) {
  constexpr int to_cpu = 1;
  const std::string& remote = of(device)->links.at(link);
  *type = remote == "switch" ? abi::link_to_switch : remote == "cpu" ? to_cpu : abi::link_to_gpu;
  return enter("nvmlDeviceGetNvLinkRemoteDeviceType");
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(abi::Device device, unsigned link, abi::PciInfo* pci) {
  const int status = enter("nvmlDeviceGetNvLinkRemotePciInfo_v2");
  const std::string& remote = of(device)->links.at(link);
  // A switch and a processor have addresses, too.
  const std::string address = remote == "switch" || remote == "cpu" ? "00000000:C0:00.0" : remote;
  return status != abi::success ? status : copy(address, pci->bus_id, sizeof pci->bus_id);
}

#endif

}  // extern "C"
