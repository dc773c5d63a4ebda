#include "base/model/accelerator_vendor.h"

#include <algorithm>

namespace mobula::internal {
namespace {

// Sources: Ray, python/ray/_private/accelerators/*.py, for resources, variables, and fractions; the
// documents of a vendor if a comment names them.
constexpr std::array<VendorRow, vendor_count> rows{{
    // HIP falls back to CUDA_VISIBLE_DEVICES if HIP_VISIBLE_DEVICES is empty, and to all devices if
    // both are. Only an index that does not exist hides all devices (ROCm/clr, rocdevice.cpp).
    {.vendor = Vendor::amd,
     .name = "amd",
     .resource = "GPU",
     .variable = "HIP_VISIBLE_DEVICES",
     .fractions = true,
     .nothing = "-1",
     .second = {.variable = "ROCR_VISIBLE_DEVICES", .renumbers = true, .inherited = true},
     .also_refused = {"GPU_DEVICE_ORDINAL"}},
    // The SYCL runtime rejects an empty list and accepts a filter that discards GPUs. An index
    // means a card in PCI order only with the two additional variables (Level Zero, core
    // programming guide, "Environment Variables"). The driver reads the affinity mask, for programs
    // without SYCL. Without a number it masks nothing, and it skips numbers without a card
    // (intel/compute-runtime, execution_environment.cpp).
    {.vendor = Vendor::intel,
     .name = "intel",
     .resource = "GPU",
     .variable = "ONEAPI_DEVICE_SELECTOR",
     .fractions = true,
     .list_prefix = "level_zero:",
     .nothing = "!*:gpu",
     .second = {.variable = "ZE_AFFINITY_MASK", .nothing = "4096", .renumbers = true},
     .set_with = {{{"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"},
                   {"ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"}}},
     .also_refused = {"SYCL_DEVICE_FILTER"}},
    // NVML numbers devices by PCI address. By default, CUDA puts the fastest device first.
    {.vendor = Vendor::nvidia,
     .name = "nvidia",
     .resource = "GPU",
     .variable = "CUDA_VISIBLE_DEVICES",
     .fractions = true,
     .hidden_everywhere = true,
     .set_with = {{{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}},
     .also_refused = {"NVIDIA_VISIBLE_DEVICES"}},
    {.vendor = Vendor::metax,
     .name = "metax",
     .resource = "GPU",
     .variable = "CUDA_VISIBLE_DEVICES",
     .fractions = true},
    {.vendor = Vendor::biren,
     .name = "biren",
     .resource = "GPU",
     .variable = "SUPA_VISIBLE_DEVICES",
     .fractions = true},
    {.vendor = Vendor::cambricon,
     .name = "cambricon",
     .resource = "GPU",
     .variable = "MLU_VISIBLE_DEVICES",
     .fractions = true},
    {.vendor = Vendor::neuron,
     .name = "neuron",
     .resource = "neuron_cores",
     .variable = "NEURON_RT_VISIBLE_CORES",
     .fractions = false,
     .hidden_everywhere = true,
     .ranges = true},
    {.vendor = Vendor::tpu,
     .name = "tpu",
     .resource = "TPU",
     .variable = "TPU_VISIBLE_CHIPS",
     .fractions = false,
     .also_refused = {"TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS", "TPU_VISIBLE_DEVICES"},
     .counts = {1, 2, 4, 8}},
    {.vendor = Vendor::gaudi,
     .name = "gaudi",
     .resource = "HPU",
     .variable = "HABANA_VISIBLE_MODULES",
     .fractions = false,
     .also_refused = {"HABANA_VISIBLE_DEVICES", "HLS_MODULE_ID"}},
    {.vendor = Vendor::ascend,
     .name = "ascend",
     .resource = "NPU",
     .variable = "ASCEND_RT_VISIBLE_DEVICES",
     .fractions = true,
     .also_refused = {"ASCEND_VISIBLE_DEVICES"}},
    {.vendor = Vendor::rebellions,
     .name = "rebellions",
     .resource = "RBLN",
     .variable = "RBLN_DEVICES",
     .fractions = false},
    {.vendor = Vendor::furiosa,
     .name = "furiosa",
     .resource = "FURIOSA",
     .variable = "FURIOSA_DEVICES",
     .fractions = false,
     .id_prefix = "npu:",
     .also_refused = {"FURIOSA_VISIBLE_DEVICES"}},
    {.vendor = Vendor::tenstorrent,
     .name = "tenstorrent",
     .resource = "TTNPU",
     .variable = "TT_VISIBLE_DEVICES",
     .fractions = false,
     .also_refused = {"TT_METAL_VISIBLE_DEVICES"}},
    // The library reads the second variable; programs written for Ray read the first.
    {.vendor = Vendor::mobilint,
     .name = "mobilint",
     .resource = "MBLT",
     .variable = "MBLT_DEVICES",
     .fractions = false,
     .second = {.variable = "QBRUNTIME_VISIBLE_DEVICES"}},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i].vendor) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the index of a row is the number of its vendor");

}  // namespace

std::span<const VendorRow> vendor_rows() { return rows; }

const VendorRow& row_of(Vendor vendor) { return rows[static_cast<std::size_t>(vendor)]; }

const VendorRow* vendor_named(std::string_view name) {
  const auto at = std::ranges::find(rows, name, &VendorRow::name);
  return at == rows.end() ? nullptr : &*at;
}

const VendorRow* vendor_of_resource(std::string_view resource) {
  const auto at = std::ranges::find(rows, resource, &VendorRow::resource);
  return at == rows.end() ? nullptr : &*at;
}

bool is_accelerator_variable(std::string_view variable) {
  if (variable.empty()) return false;
  return std::ranges::any_of(rows, [&](const VendorRow& row) {
    return row.variable == variable || row.second.variable == variable ||
           std::ranges::find(row.also_refused, variable) != row.also_refused.end() ||
           std::ranges::find(row.set_with, variable, &Setting::variable) != row.set_with.end();
  });
}

}  // namespace mobula::internal
