// The table of accelerator vendors: a row each, with all that the rest of the system has to know of
// one: the resource that counts its devices, the variable that chooses among them, how that is
// written, and whether a device can be shared. How its devices are found is device/detection.h.
// Constants; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mobula::internal {

// In the order in which those that claim `GPU` are asked when a node has several: AMD, Intel, then
// NVIDIA (as in Ray), then those that Ray's table does not order.
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

// A second variable that chooses among a vendor's devices, by the ids alone.
struct SecondMask {
  std::string_view variable = {};
  std::string_view nothing = {};  // as in VendorRow; an empty value then restricts nothing
  // A lower layer reads it first and counts what it lets through anew: there the mask's ids count.
  bool renumbers = false;
  bool inherited = false;  // never set by the runtime: executors have it as the node has it
};

// Views that are empty are not there.
struct VendorRow {
  Vendor vendor;
  std::string_view name;      // in MOBULA_GPU_VENDOR and in what is shown of a node
  std::string_view resource;  // several vendors may claim one; a node has one of them
  std::string_view variable;  // the mask
  bool fractions;             // a request may ask for less than one device
  // On every node, whether it has such devices or not: libraries that nearly every machine has.
  bool hidden_everywhere = false;

  // The mask's value: `list_prefix`, then the ids with `id_prefix` each, separated by commas.
  std::string_view list_prefix = {};
  std::string_view id_prefix = {};
  // What hides every device; libraries do not all take an empty list for one.
  std::string_view nothing = {};
  bool ranges = false;  // "0-3" stands for four ids where the mask is read

  SecondMask second = {};
  // Set together with the mask, so that the library counts devices as the runtime does.
  std::array<Setting, 2> set_with = {};
  // Others that choose devices of this vendor. Like the mask itself they are refused from users.
  std::array<std::string_view, 4> also_refused = {};
  // Amounts that a request may ask for; empty: any that `fractions` allows.
  std::array<std::uint8_t, 4> counts = {};
};

// All rows, in the order of `Vendor`.
std::span<const VendorRow> vendor_rows();
const VendorRow& row_of(Vendor vendor);
// By VendorRow::name; null for an unknown one.
const VendorRow* vendor_named(std::string_view name);
// The only row, or the first, that counts its devices in `resource`; null if none does.
const VendorRow* vendor_of_resource(std::string_view resource);

// Whether this variable chooses devices of some vendor: the runtime sets it, users may not.
bool is_accelerator_variable(std::string_view variable);

}  // namespace mobula::internal
