// The rules of numbered instances as a table: devices that consecutive GPU requests get on a fresh
// node. Its rows run on the ledger (instance_ledger_test.cc) and on real processes
// (e2e/device_rows_test.cc).
// Thread: owner (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace mobula {

struct DeviceStep {
  enum class What {
    given,    // requests `gpus` and gets `devices`
    waits,    // requests `gpus`, which are not free
    refused,  // requests `gpus`, which no node can ever provide
    ended,    // the devices of step number `of` are free again
    served,   // step number `of` waited until now, and gets `devices`
  };
  What what = What::given;
  double gpus = 0;
  std::vector<std::uint32_t> devices{};
  std::size_t of = 0;  // counted from 0
};

struct DeviceRow {
  std::string name;
  double gpus = 0;  // GPUs of the node; 1.5 are a whole device and half of one
  std::vector<DeviceStep> steps;
};

inline std::ostream& operator<<(std::ostream& out, const DeviceRow& row) { return out << row.name; }

inline std::vector<DeviceRow> device_rows() {
  using What = DeviceStep::What;
  using Devices = std::vector<std::uint32_t>;
  const auto given = [](double gpus, Devices devices) {
    return DeviceStep{What::given, gpus, std::move(devices)};
  };
  const auto waits = [](double gpus) { return DeviceStep{What::waits, gpus}; };
  const auto refused = [](double gpus) { return DeviceStep{What::refused, gpus}; };
  const auto ended = [](std::size_t of) { return DeviceStep{What::ended, 0, {}, of}; };
  const auto served = [](std::size_t of, Devices devices) {
    return DeviceStep{What::served, 0, std::move(devices), of};
  };
  return {
      {"Packing", 2, {given(0.5, {0}), given(0.5, {0}), given(0.5, {1})}},
      {"Queueing",
       1,
       {given(0.3, {0}), given(0.3, {0}), given(0.3, {0}), waits(0.3), ended(1), served(3, {0})}},
      // 0.1 is left of each device: enough in total, but a share is never split over two.
      {"BestFit",
       2,
       {given(0.3, {0}), given(0.6, {0}), given(0.5, {1}), given(0.4, {1}), waits(0.3), ended(2),
        served(4, {1})}},
      {"Ties", 2, {given(0.6, {0}), given(0.6, {1}), given(0.4, {0}), given(0.4, {1})}},
      // A wait for a whole device does not block a fraction of another device.
      {"WholeDevices",
       4,
       {given(0.5, {0}), given(2, {1, 2}), given(1, {3}), waits(1), given(0.5, {0}), ended(1),
        served(3, {1})}},
      {"Refused", 4, {refused(1.5), given(1, {0}), refused(2.5)}},
      {"FractionalNode",
       1.5,
       {given(0.5, {1}), given(1, {0}), waits(0.5), ended(1), served(2, {0})}},
  };
}

}  // namespace mobula
