// Detection of each vendor against a simulation of its interface: a file tree in place of /sys and
// /dev, or a script in place of its program.
#include "device/detection/detection.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device_tree.h"
#include "device/scratch.h"

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DetectionSimulated : public testing::Test {
 protected:
  DetectionSimulated() {
    paths.nvidia = {.nvml_library = files.path("no-nvml.so"),
                    .proc = files.path("proc"),
                    .topology_xml = files.write("none.xml", "")};
    paths.neuron.tools = files.path("neuron");
    paths.dev = files.path("dev");
    paths.sys = files.path("sys");
    paths.hl_smi = files.path("bin/hl-smi");
  }

  void pci(const std::string& bus_id, const char* vendor, const char* device, const char* kind) {
    const std::string directory = "sys/bus/pci/devices/" + bus_id;
    files.write(directory + "/vendor", std::string(vendor) + "\n");
    files.write(directory + "/device", std::string(device) + "\n");
    files.write(directory + "/class", std::string(kind) + "\n");
  }
  void kfd(int node, const std::string& properties, std::uint64_t bytes = 0) {
    const std::string directory = "sys/class/kfd/kfd/topology/nodes/" + std::to_string(node);
    files.write(directory + "/properties", properties);
    if (bytes == 0) return;
    files.write(directory + "/mem_banks/0/properties",
                "heap_type 2\nsize_in_bytes " + std::to_string(bytes) + "\nflags 0\n");
  }
  void script(const std::string& path, const std::string& body) {
    const std::string file = files.write(path, "#!/bin/sh\n" + body);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::vector<std::string> ids(Vendor vendor) {
    std::vector<std::string> found;
    for (const auto& each : detect_devices(vendor, paths).devices) found.push_back(each.id);
    return found;
  }

  Scratch files;
  DetectionPaths paths;
};

TEST_F(DetectionSimulated, NoDevices_ReportsNoneForEachVendor) {
  for (const VendorRow& vendor : vendor_rows()) {
    const Detected found = detect_devices(vendor.vendor, paths);
    EXPECT_THAT(found.devices, IsEmpty()) << vendor.name;
    EXPECT_THAT(found.notes, IsEmpty()) << vendor.name;
  }
}

TEST_F(DetectionSimulated, DetectsAmdByKernelTopology) {
  kfd(0, "cpu_cores_count 64\nsimd_count 0\nvendor_id 0\n", std::uint64_t{256} << 30);
  kfd(1,
      "cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\ndevice_id 29857\nlocation_id 21248\n"
      "domain 1\nunique_id 6234535077217566\n",
      std::uint64_t{192} << 30);
  kfd(10, "simd_count 416\nvendor_id 4098\ndevice_id 29711\nlocation_id 768\n");
  const auto found = detect_devices(Vendor::amd, paths);
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[0], (AcceleratorDevice{.product = "AMD 0x74a1",
                                                 .uuid = "GPU-00162646d09e051e",
                                                 .pci_bus_id = "0001:53:00.0",
                                                 .memory_bytes = std::uint64_t{192} << 30,
                                                 .id = "0",
                                                 .types = {"AMD-Instinct-MI300X-OAM"}}));
  EXPECT_THAT(found.devices[1].types, ElementsAre("AMD-Instinct-MI210"));
  EXPECT_EQ(found.devices[1].id, "1");
  EXPECT_EQ(found.devices[1].uuid, "");
}

TEST_F(DetectionSimulated, AmdDisplayUnits_AreCountedNotOffered) {
  kfd(1, "simd_count 4\nvendor_id 4098\ndevice_id 5710\n", std::uint64_t{512} << 20);
  kfd(2, "simd_count 416\nvendor_id 4098\ndevice_id 29711\n", std::uint64_t{64} << 30);
  const auto found = detect_devices(Vendor::amd, paths);
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_EQ(found.devices[0].id, "1") << "HIP counts the display unit as 0";
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("512 MiB")));
}

// Table from Ray, by device ids that the kernel writes in decimal.
struct PciRow {
  const char* device;
  const char* type;
};

class AmdTypesSimulated : public DetectionSimulated, public testing::WithParamInterface<PciRow> {};

TEST_P(AmdTypesSimulated, FollowsTable) {
  const auto number = std::stoul(GetParam().device, nullptr, 16);
  kfd(1, "simd_count 4\nvendor_id 4098\ndevice_id " + std::to_string(number) + "\n");
  EXPECT_THAT(detect_devices(Vendor::amd, paths).devices[0].types, ElementsAre(GetParam().type));
}

INSTANTIATE_TEST_SUITE_P(
    Products, AmdTypesSimulated,
    testing::Values(
        PciRow{"0x738c", "AMD-Instinct-MI100"}, PciRow{"0x7408", "AMD-Instinct-MI250X"},
        PciRow{"0x740c", "AMD-Instinct-MI250X-MI250"}, PciRow{"0x740f", "AMD-Instinct-MI210"},
        PciRow{"0x74a0", "AMD-Instinct-MI300A"}, PciRow{"0x74a1", "AMD-Instinct-MI300X-OAM"},
        PciRow{"0x74a2", "AMD-Instinct-MI308X"}, PciRow{"0x74a5", "AMD-Instinct-MI325X-OAM"},
        PciRow{"0x74a9", "AMD-Instinct-MI300X-HF"}, PciRow{"0x6798", "AMD-Radeon-R9-200-HD-7900"},
        PciRow{"0x6799", "AMD-Radeon-HD-7900"}, PciRow{"0x679a", "AMD-Radeon-HD-7900"},
        PciRow{"0x679b", "AMD-Radeon-HD-7900"}));

TEST_F(DetectionSimulated, DetectsIntelByPciBus) {
  pci("0000:00:02.0", "0x8086", "0x4680", "0x030000");
  pci("0000:3a:00.0", "0x8086", "0x0bd5", "0x038000");
  pci("0000:9a:00.0", "0x8086", "0x0bda", "0x038000");
  pci("0000:00:1f.3", "0x8086", "0x7ad0", "0x040300");
  pci("0000:10:00.0", "0x10de", "0x2330", "0x030200");
  const auto found = detect_devices(Vendor::intel, paths);
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[0].id, "1") << "Level Zero counts the processor's own as 0";
  EXPECT_EQ(found.devices[0].pci_bus_id, "0000:3a:00.0");
  EXPECT_THAT(found.devices[0].types, ElementsAre("Intel-GPU-Max-1550"));
  EXPECT_THAT(found.devices[1].types, ElementsAre("Intel-GPU-Max-1100"));
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("0000:00:02.0")));
}

TEST_F(DetectionSimulated, DetectsNeuronByTool) {
  script("neuron/neuron-ls", "echo '[{\"nc_count\":2},{\"nc_count\":2}]'\n");
  const auto found = detect_devices(Vendor::neuron, paths);
  EXPECT_THAT(ids(Vendor::neuron), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(found.devices[3].types, ElementsAre("aws-neuron-core"));
  script("neuron/neuron-ls", "exit 3\n");
  EXPECT_THAT(ids(Vendor::neuron), IsEmpty());
  EXPECT_THAT(detect_devices(Vendor::neuron, paths).notes, ElementsAre(HasSubstr("neuron-ls")));
}

TEST_F(DetectionSimulated, DetectsTpusByFiles) {
  for (const char* name : {"dev/accel0", "dev/accel2", "dev/accel1", "dev/accel10"}) {
    files.write(name, "");
  }
  files.write("dev/accel/accel0", "");  // directory of another kind of device
  EXPECT_THAT(ids(Vendor::tpu), ElementsAre("0", "1", "2", "10"));
  EXPECT_THAT(detect_devices(Vendor::tpu, paths).devices[0].types, IsEmpty());
  pci("0000:00:04.0", "0x1ae0", "0x005e", "0x088000");
  EXPECT_THAT(detect_devices(Vendor::tpu, paths).devices[0].types, ElementsAre("TPU-V4"));
  paths.tpu_type = "v5litepod-16";
  EXPECT_THAT(detect_devices(Vendor::tpu, paths).devices[0].types, ElementsAre("TPU-V5LITEPOD"));
}

TEST_F(DetectionSimulated, DetectsVfioTpusOnlyByBus) {
  for (const char* name : {"dev/vfio/7", "dev/vfio/9", "dev/vfio/vfio"}) files.write(name, "");
  EXPECT_THAT(ids(Vendor::tpu), IsEmpty()) << "other devices are passed through, too";
  pci("0000:00:04.0", "0x1ae0", "0x006f", "0x120000");
  EXPECT_THAT(ids(Vendor::tpu), ElementsAre("0", "1"));
  EXPECT_THAT(detect_devices(Vendor::tpu, paths).devices[1].types, ElementsAre("TPU-V6E"));
}

TEST_F(DetectionSimulated, DetectsGaudiByToolAndModule) {
  script("bin/hl-smi",
         "[ \"$1 $3\" = '-Q -f' ] || exit 9\n"
         "echo '3, 01P0-HL2080A0-15, 0000:4d:00.0, HL-225, 98304'\n"
         "echo '0, 01P0-HL2080A0-16, 0000:33:00.0, HL-225, 98304'\n");
  const auto found = detect_devices(Vendor::gaudi, paths);
  EXPECT_THAT(ids(Vendor::gaudi), ElementsAre("0", "3"));
  EXPECT_EQ(found.devices[1], (AcceleratorDevice{.product = "HL-225",
                                                 .uuid = "01P0-HL2080A0-15",
                                                 .pci_bus_id = "0000:4d:00.0",
                                                 .memory_bytes = std::uint64_t{98304} << 20,
                                                 .id = "3",
                                                 .types = {"Intel-GAUDI2"}}));
}

TEST_F(DetectionSimulated, GaudiToolFails_IsReported) {
  script("bin/hl-smi", "exit 1\n");
  EXPECT_THAT(detect_devices(Vendor::gaudi, paths).notes, ElementsAre(HasSubstr("hl-smi")));
  script("bin/hl-smi", "echo 'no such device'\n");
  EXPECT_THAT(ids(Vendor::gaudi), IsEmpty());
  EXPECT_THAT(detect_devices(Vendor::gaudi, paths).notes, ElementsAre(HasSubstr("no such device")));
}

TEST_F(DetectionSimulated, DetectsAscendByFiles) {
  for (const char* name : {"dev/davinci0", "dev/davinci5", "dev/davinci_manager"}) {
    files.write(name, "");
  }
  EXPECT_THAT(ids(Vendor::ascend), ElementsAre("0", "5"));
  pci("0000:c1:00.0", "0x19e5", "0xd802", "0x120000");
  EXPECT_THAT(detect_devices(Vendor::ascend, paths).devices[0].types, ElementsAre("Ascend910B"));
}

// Vendors that are detected by numbered files alone.
struct FilesRow {
  Vendor vendor;
  std::vector<const char*> names;
};

class NumberedFilesSimulated : public DetectionSimulated,
                               public testing::WithParamInterface<FilesRow> {};

TEST_P(NumberedFilesSimulated, ListsNumberedDeviceFiles) {
  for (const char* name : GetParam().names) files.write(name, "");
  EXPECT_THAT(ids(GetParam().vendor), ElementsAre("0", "2"));
}

INSTANTIATE_TEST_SUITE_P(
    Vendors, NumberedFilesSimulated,
    testing::Values(FilesRow{Vendor::rebellions, {"dev/rbln2", "dev/rbln0", "dev/rblnctl"}},
                    FilesRow{Vendor::tenstorrent, {"dev/tenstorrent/0", "dev/tenstorrent/2"}},
                    FilesRow{Vendor::mobilint, {"dev/aries0", "dev/regulus2", "dev/ariesx"}},
                    FilesRow{Vendor::biren, {"dev/biren/card_0", "dev/biren/card_2"}},
                    FilesRow{Vendor::cambricon,
                             {"dev/cambricon_dev0", "dev/cambricon_dev2", "dev/cambricon_ctl"}}));

TEST_F(DetectionSimulated, NvmlMissing_ReadsDriverFiles) {
  files.write("proc/driver/nvidia/gpus/0000:18:00.0/information",
              "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-aa\n");
  const auto found = detect_devices(Vendor::nvidia, paths);
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_EQ(found.devices[0].uuid, "GPU-aa");
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("no-nvml.so")));
}

TEST_F(DetectionSimulated, NvidiaSlices_KnowTheirBoard) {
  paths.nvidia.nvml_library = FAKE_NVML;
  ::setenv("FAKE_NVML_FILE",
           files
               .write("nvml",
                      "gpu|NVIDIA A100-SXM4-40GB|GPU-aa|1000|0:1|1\n"
                      "slice|NVIDIA A100-SXM4-40GB MIG 1g.5gb|MIG-1|500\n"
                      "gpu|NVIDIA A100-SXM4-40GB|GPU-bb|1000|0:2|0\n")
               .c_str(),
           1);
  const auto found = detect_devices(Vendor::nvidia, paths);
  ::unsetenv("FAKE_NVML_FILE");
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[0].id, "MIG-1");
  EXPECT_EQ(found.devices[0].board, "0");
  EXPECT_EQ(found.devices[1].id, "1");
}

}  // namespace
}  // namespace mobula::internal
