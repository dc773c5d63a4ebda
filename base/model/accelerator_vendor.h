// The table of accelerator vendors, one row each: the resource that counts its devices, the
// variable that masks them and its syntax, and whether a device can be shared.
// Thread: any (constants).
// Not: detection of devices, see device/detection.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mobula::internal {

// If several vendors claim `GPU` on one node, this order decides: AMD, Intel, NVIDIA (as in Ray),
// then vendors that Ray's table does not order.
enum class Vendor : std::uint8_t {
  amd,
  intel,
  nvidia,
  metax,
  biren,
  cambricon,
  neuron,
  tpu,
  gaudi,
  ascend,
  rebellions,
  furiosa,
  tenstorrent,
  mobilint,
};
inline constexpr std::size_t vendor_count = 14;

struct Setting {
  std::string_view variable;
  std::string_view value;
};

// A second variable that masks the devices of a vendor, with plain ids.
struct SecondMask {
  std::string_view variable = {};
  std::string_view nothing = {};  // as in VendorRow; empty: an empty value masks nothing
  // A lower layer reads this variable first and renumbers the remaining devices. The ids of the
  // mask refer to the new numbers.
  bool renumbers = false;
  bool inherited = false;  // never set by the runtime: executors inherit the value of the node
};

// Empty string views mean absent.
struct VendorRow {
  Vendor vendor;
  std::string_view name;      // name in MOBULA_GPU_VENDOR and in the output about a node
  std::string_view resource;  // several vendors may claim one resource; a node has one of them
  std::string_view variable;  // the mask
  bool fractions;             // a request may be below one device
  // Hidden on every node, even without such devices, because nearly every machine has the
  // libraries.
  bool hidden_everywhere = false;

  // Value of the mask: `list_prefix`, then each id with `id_prefix`, separated by commas.
  std::string_view list_prefix = {};
  std::string_view id_prefix = {};
  // Value that hides every device, because some libraries do not accept an empty list.
  std::string_view nothing = {};
  bool ranges = false;  // "0-3" means four ids in the mask

  SecondMask second = {};
  // Set together with the mask, so that the library numbers devices as the runtime does.
  std::array<Setting, 2> set_with = {};
  // Other variables that select devices of this vendor. Users may set neither these nor the mask.
  std::array<std::string_view, 4> also_refused = {};
  // Permitted amounts of a request; empty: any that `fractions` allows.
  std::array<std::uint8_t, 4> counts = {};
};

// All rows, in the order of `Vendor`.
std::span<const VendorRow> vendor_rows();
const VendorRow& row_of(Vendor vendor);
// The row with this VendorRow::name; null if unknown.
const VendorRow* vendor_named(std::string_view name);
// The first row that counts its devices in `resource`; null if none does.
const VendorRow* vendor_of_resource(std::string_view resource);

// Returns true if this variable selects devices of any vendor: the runtime sets it, and users may
// not.
bool is_accelerator_variable(std::string_view variable);

}  // namespace mobula::internal
