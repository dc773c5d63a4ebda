// Fixture of the conformance suite: nodes with one transport, and the rows of the table of
// behaviors (matrix/rows.h) that the running test proves for it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "matrix/cells.h"
#include "simulated_gpu/machine.h"
#include "transport/bytes_fixture.h"
#include "transport/tensor/node.h"

namespace mobula::internal::direct_test {

inline constexpr std::uint64_t kib = 1024, mib = 1024 * kib;

// The transports that the suite runs with.
std::vector<Way> ways_from(Way first);
// UUIDs that NVML reports for the devices of a machine and their slices.
std::vector<std::string> device_uuids(const SimulatedMachine& machine, const std::string& words);
inline const auto every_way = testing::ValuesIn(ways_from(Way::inproc));
inline const auto between_processes = testing::ValuesIn(ways_from(Way::shm));
inline const auto by_network = testing::ValuesIn(ways_from(Way::tcp));
inline const auto by_plugins = testing::ValuesIn(ways_from(Way::carried));
// Transports for tests of one gibibyte; empty unless requested. They take a minute and gigabytes of
// memory.
inline auto large_ways(Way first) {
  return testing::ValuesIn(std::getenv("MOBULA_TEST_LARGE") == nullptr ? std::vector<Way>()
                                                                       : ways_from(first));
}
inline std::string way_name(const testing::TestParamInfo<Way>& each) { return name_of(each.param); }

using matrix::Part;
matrix::Column column_of(Way way);

class Conformance : public testing::TestWithParam<Way> {
 protected:
  void belongs_to(Part part) const {
    matrix::belongs_to(part, column_of(GetParam()),
                       on_device() ? matrix::Proof::simulated : matrix::Proof::real);
  }
  bool within() const { return GetParam() == Way::inproc; }
  // True if a channel talks to the holder from its start.
  bool greets() const { return GetParam() == Way::shm || on_device(); }
  bool shared() const { return GetParam() == Way::shm; }
  // True if bytes are in the memory of a (simulated) GPU.
  bool on_device() const { return GetParam() == Way::cuda_ipc || GetParam() == Way::nccl; }
  // True if bytes travel over a network.
  bool networked() const { return GetParam() == Way::tcp || is_plugged(GetParam()); }

  NodeOptions options() const {
    NodeOptions made;
    made.way = GetParam();
    made.directory = directory_.path();
    if (on_device()) made.machine = machine_.environment();
    // These transports do not encrypt.
    made.sealed = !is_plugged(GetParam()) && GetParam() != Way::nccl;
    return made;
  }
  std::unique_ptr<Node> node() { return std::make_unique<Node>(options()); }
  std::unique_ptr<Node> node(const NodeOptions& with) { return std::make_unique<Node>(with); }

  TransferId next() { return TransferId::of(++transfers_); }

  // Offers and pulls the regions. The receiver has opened a channel.
  TransferId begin(Node& holder, Node& receiver, std::uint64_t epoch,
                   const std::vector<RegionSpec>& regions, std::uint64_t silence_ms = 20'000) {
    const TransferId id = next();
    const auto ticket = holder.offer(id, receiver, epoch, regions);
    EXPECT_TRUE(ticket) << (ticket ? "" : ticket.error().text);
    if (ticket) receiver.pull(id, holder, epoch, *ticket, regions, silence_ms);
    return id;
  }
  // Completes a transfer and checks its result.
  void transfer(Node& holder, Node& receiver, std::uint64_t epoch,
                const std::vector<RegionSpec>& regions) {
    const TransferId id = begin(holder, receiver, epoch, regions);
    expect_right(receiver, id, regions);
    holder.release(id);
    receiver.drop(id);
  }
  void expect_right(Node& receiver, TransferId id, const std::vector<RegionSpec>& regions) {
    const Seen seen = receiver.seen(id);
    EXPECT_TRUE(seen.ok) << seen.text;
    EXPECT_TRUE(seen.right);
    EXPECT_TRUE(seen.guards);
    std::uint64_t bytes = 0;
    for (const RegionSpec& each : regions) bytes += each.size;
    EXPECT_EQ(seen.bytes, bytes);
  }

  SimulatedMachine machine_{"memory=8589934592 late_us=50"};

 private:
  TemporaryDirectory directory_;
  std::uint64_t transfers_ = 0;
};

// A holder and a receiver. Within a process they are the same node.
class PairConformance : public Conformance {
 protected:
  void SetUp() override { make(options(), options()); }
  void make(const NodeOptions& for_holder, const NodeOptions& for_receiver) {
    receiver_owned_.reset();
    holder_owned_ = node(for_holder);
    if (!within()) receiver_owned_ = node(for_receiver);
  }
  Node& holder() { return *holder_owned_; }
  Node& receiver() { return within() ? *holder_owned_ : *receiver_owned_; }
  void open(std::uint64_t epoch = 1) {
    const auto opened = receiver().open(holder(), epoch);
    ASSERT_TRUE(opened) << opened.error().text;
  }

  std::unique_ptr<Node> holder_owned_;
  std::unique_ptr<Node> receiver_owned_;
};

}  // namespace mobula::internal::direct_test
