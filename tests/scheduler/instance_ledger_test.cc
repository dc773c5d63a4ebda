#include "scheduler/ledger/instance_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "scheduler/device_rows.h"
#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using Indices = std::vector<std::uint32_t>;

// A ledger of one node that returns the allocated devices; empty if nothing is allocated.
class Books {
 public:
  explicit Books(const NodeShape& shape) : ledger(shape, 1000) {}

  Indices book(const Request& request) {
    last = ledger.book(Need(request, Tenant::task));
    Indices indices;
    if (!last) return indices;
    for (const auto& each : last->resources) {
      if (!is_unit_instance(each.name)) continue;
      for (const auto& share : each.shares) indices.push_back(share.index);
    }
    return indices;
  }
  ReasonCode refusal(const Request& request) {
    return ledger.why_not(Need(request, Tenant::task)).code;
  }

  InstanceLedger ledger;
  std::optional<Allocation> last;
};

Request gpu_memory(double gpus, std::int64_t bytes) {
  auto made = request({{"GPU", gpus}});
  made.gpu_memory = bytes;
  return made;
}

Request typed(double gpus, const std::string& type) {
  auto made = request({{"GPU", gpus}});
  made.accelerator_type = type;
  return made;
}

TEST(LayoutTable, SharesLayoutDespiteLabelsAndDeviceIds) {
  LayoutTable table;
  auto shape =
      node_shape(8, {{.memory = gib, .types = {"H100"}}, {.memory = gib, .types = {"H100"}}});
  const auto first = table.share(InstanceLayout(shape));
  shape.labels["mobula.io/node-id"] = "other";
  for (auto& resource : shape.resources) {
    for (auto& instance : resource.instances) instance.uuid = instance.visible_id = "other";
  }
  EXPECT_EQ(table.share(InstanceLayout(shape)), first);
  shape.resources.back().instances.back().memory_bytes = 2 * gib;
  EXPECT_NE(table.share(InstanceLayout(shape)), first);
}

TEST(LayoutTable, ForgetsUnusedLayouts) {
  LayoutTable table;
  const auto kept = table.share(InstanceLayout(node_shape(1)));
  std::weak_ptr<const InstanceLayout> dropped = table.share(InstanceLayout(node_shape(2)));
  for (int cpus = 3; cpus < 500; ++cpus) table.share(InstanceLayout(node_shape(cpus)));
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(table.share(InstanceLayout(node_shape(1))), kept);
}

class DeviceRows : public testing::TestWithParam<DeviceRow> {};

TEST_P(DeviceRows, MatchesLedger) {
  const DeviceRow& row = GetParam();
  std::vector<Gpu> devices(static_cast<std::size_t>(row.gpus));
  if (row.gpus > static_cast<double>(devices.size())) {
    devices.push_back({.total = row.gpus - static_cast<double>(devices.size())});
  }
  Books accounting(node_shape(8, devices));
  Quantity free = amount(row.gpus);
  std::map<std::size_t, Allocation> held;
  for (std::size_t number = 0; number < row.steps.size(); ++number) {
    const DeviceStep& step = row.steps[number];
    const std::size_t requested = step.what == DeviceStep::What::served ? step.of : number;
    const double wanted = row.steps[requested].gpus;
    SCOPED_TRACE(testing::Message() << "step " << number);
    switch (step.what) {
      case DeviceStep::What::given:
      case DeviceStep::What::served:
        EXPECT_EQ(accounting.book(gpus(wanted)), step.devices);
        ASSERT_TRUE(accounting.last);
        held.emplace(requested, *accounting.last);
        free = free - amount(wanted);
        break;
      case DeviceStep::What::waits:
        EXPECT_THAT(accounting.book(gpus(wanted)), ElementsAre());
        EXPECT_EQ(accounting.refusal(gpus(wanted)), ReasonCode::resource_busy);
        break;
      case DeviceStep::What::refused:
        EXPECT_THAT(accounting.book(gpus(wanted)), ElementsAre());
        EXPECT_EQ(accounting.refusal(gpus(wanted)), ReasonCode::instance_too_small);
        break;
      case DeviceStep::What::ended:
        accounting.ledger.free(held.at(step.of), {});
        free = free + amount(row.steps[step.of].gpus);
        break;
    }
    EXPECT_EQ(accounting.ledger.available("GPU"), free);
  }
}

INSTANTIATE_TEST_SUITE_P(InstanceLedger, DeviceRows, testing::ValuesIn(device_rows()),
                         [](const auto& row) { return row.param.name; });

// A custom resource that the node counts in units, and another one without units.
NodeShape node_with_units() {
  auto shape = node_shape(8);
  ResourceShape fpga{.name = "fpga", .instances = {}, .unit = true};
  for (int i = 0; i < 3; ++i) {
    fpga.instances.push_back({amount(i == 2 ? 0.5 : 1), std::to_string(i), {}, 0});
  }
  shape.resources.push_back(fpga);
  shape.resources.push_back({"shuttle", {{amount(3), {}, {}, 0}}});
  return shape;
}

TEST(InstanceLedger, AllocatesCustomUnitsLikeDevices) {
  Books accounting(node_with_units());
  const auto indices = [&](double count) {
    accounting.book(request({{"fpga", count}}));
    Indices given;
    if (!accounting.last) return given;
    for (const auto& share : accounting.last->find("fpga")->shares) given.push_back(share.index);
    return given;
  };
  EXPECT_EQ(indices(0.5), (Indices{2}));
  EXPECT_EQ(indices(2), (Indices{0, 1}));
  EXPECT_EQ(indices(0.1), Indices{});
  EXPECT_EQ(accounting.refusal(request({{"fpga", 1}})), ReasonCode::resource_busy);
  EXPECT_EQ(accounting.refusal(request({{"fpga", 1.5}})), ReasonCode::instance_too_small);
  EXPECT_EQ(accounting.refusal(request({{"fpga", 3}})), ReasonCode::resource_too_small);
  EXPECT_TRUE(accounting.ledger.in_instances("fpga"));
  EXPECT_FALSE(accounting.ledger.in_instances("shuttle"));
}

TEST(InstanceLedger, UnitlessResource_AllowsAnyFraction) {
  Books accounting(node_with_units());
  EXPECT_EQ(accounting.refusal(request({{"shuttle", 1.5}})), ReasonCode::fits);
  EXPECT_FALSE(accounting.ledger.has_devices())
      << "units that are no accelerators do not back_off CPU work";
}

TEST(InstanceLedger, AcceleratorTypes_IgnoreCustomUnits) {
  auto shape = node_shape(8, {{.types = {"H100"}}});
  shape.resources.push_back(node_with_units().resources[1]);
  Books accounting(shape);
  auto wanted = request({{"GPU", 1}, {"fpga", 1}});
  wanted.accelerator_type = "H100";
  EXPECT_EQ(accounting.refusal(wanted), ReasonCode::fits);
  wanted.accelerator_type = "T4";
  EXPECT_EQ(accounting.refusal(wanted), ReasonCode::accelerator_type_absent);
}

TEST(InstanceLedger, AllowsAnyFractionOfCpu) {
  Books accounting(node_with(2, 0));
  accounting.book(cpus(1.5));
  ASSERT_TRUE(accounting.last);
  EXPECT_EQ(accounting.last->find("CPU")->shares.front().amount, amount(1.5));
  accounting.book(cpus(1));
  EXPECT_FALSE(accounting.last);
  EXPECT_EQ(accounting.refusal(cpus(1)), ReasonCode::resource_busy);
  EXPECT_EQ(accounting.refusal(cpus(3)), ReasonCode::resource_too_small);
}

TEST(InstanceLedger, AllocatesWholeRequestOrNothing) {
  Books accounting(node_with(1, 2));
  accounting.book(cpus(1));
  const auto before = accounting.ledger;
  EXPECT_THAT(accounting.book(request({{"GPU", 1}, {"CPU", 1}})), ElementsAre());
  EXPECT_EQ(accounting.ledger, before);
}

TEST(InstanceLedger, Free_RestoresLedgerExactly) {
  Books accounting(node_shape(8, {{1, 80 * gib, {"H100"}}, {1, 80 * gib, {"H100"}}}));
  const auto before = accounting.ledger;
  auto wanted = request({{"GPU", 0.3333}, {"CPU", 1}});
  wanted.accelerator_type = "H100";
  accounting.book(wanted);
  ASSERT_TRUE(accounting.last);
  EXPECT_NE(accounting.ledger, before);
  accounting.ledger.free(*accounting.last, {});
  EXPECT_EQ(accounting.ledger, before);
}

TEST(InstanceLedger, Fraction_AllocatesItsShareOfMemory) {
  Books accounting(node_shape(8, {{1, 80 * gib}}));
  accounting.book(gpus(0.5));
  EXPECT_EQ(accounting.last->find("GPU")->shares.front().memory_bytes, 40 * gib);
}

TEST(InstanceLedger, RequiresFractionAndBytesOnOneDevice) {
  Books accounting(node_shape(8, {{1, 16 * gib}, {1, 16 * gib}}));
  EXPECT_THAT(accounting.book(gpu_memory(0.1, 12 * gib)), ElementsAre(0));
  EXPECT_THAT(accounting.book(gpu_memory(0.8, 4 * gib)), ElementsAre(0));
  EXPECT_THAT(accounting.book(gpu_memory(0.5, 12 * gib)), ElementsAre(1));
  // Device 0 has 0.1 and no bytes left, device 1 has 0.5 and 4 GiB.
  EXPECT_THAT(accounting.book(gpu_memory(0.1, 5 * gib)), ElementsAre());
  EXPECT_EQ(accounting.refusal(gpu_memory(0.1, 5 * gib)), ReasonCode::gpu_memory_busy);
  EXPECT_EQ(accounting.refusal(gpu_memory(0.1, 17 * gib)), ReasonCode::gpu_memory_too_small);
}

TEST(InstanceLedger, BytesAlone_AllocateFractionRoundedUp) {
  Books accounting(node_shape(8, {{1, 80 * gib}}));
  EXPECT_THAT(accounting.book(gpu_memory(0, 12 * gib)), ElementsAre(0));
  const auto share = accounting.last->find("GPU")->shares.front();
  EXPECT_EQ(share.memory_bytes, 12 * gib);
  EXPECT_EQ(share.amount, Quantity::from_units(1500));
  accounting.book(gpu_memory(0, 1));
  EXPECT_EQ(accounting.last->find("GPU")->shares.front().amount, Quantity::from_units(1));
}

TEST(InstanceLedger, WholeDevices_NeedTheirBytesEach) {
  Books accounting(node_shape(8, {{1, 24 * gib}, {1, 80 * gib}, {1, 80 * gib}}));
  EXPECT_EQ(accounting.refusal(gpu_memory(3, 40 * gib)), ReasonCode::gpu_memory_too_small);
  EXPECT_THAT(accounting.book(gpu_memory(2, 40 * gib)), ElementsAre(1, 2));
  EXPECT_EQ(accounting.last->find("GPU")->shares.front().memory_bytes, 80 * gib);
  EXPECT_EQ(accounting.refusal(gpu_memory(1, 40 * gib)), ReasonCode::gpu_memory_busy);
}

// Consecutive requests on a device of 80 GiB, on which a context takes 1 GiB.
struct ContextRow {
  double gpus = 0;
  std::int64_t gib_requested = 0;
  double gpus_booked = 0;
  std::int64_t gib_booked = 0;
};

TEST(InstanceLedger, AllocatesContextInAdditionToUsableBytes) {
  const std::vector<std::vector<ContextRow>> cases{
      {{0.5, 0, 0.5, 40}, {0.5, 0, 0.5, 40}},      // a fraction includes its context
      {{0.5, 12, 0.5, 13}, {0.5, 66, 0.5, 67}},    // 13 + 67 is the whole device
      {{0, 12, 0.1625, 13}, {0, 66, 0.8375, 67}},  // 13/80 and 67/80 of the device
      {{0, 79, 1, 80}},
      {{1, 79, 1, 80}},
      {{1, 0, 1, 80}},
  };
  for (const auto& rows : cases) {
    Books accounting(node_shape(8, {{.memory = 80 * gib, .context = gib}}));
    for (const auto& row : rows) {
      SCOPED_TRACE(testing::Message() << row.gpus << " GPUs, " << row.gib_requested << " GiB");
      ASSERT_THAT(accounting.book(gpu_memory(row.gpus, row.gib_requested * gib)), ElementsAre(0));
      const auto share = accounting.last->find("GPU")->shares.front();
      EXPECT_EQ(share.amount, amount(row.gpus_booked));
      EXPECT_EQ(share.memory_bytes, row.gib_booked * gib);
    }
  }
}

TEST(InstanceLedger, ContextDoesNotFit_NamesUsableBytes) {
  Books accounting(node_shape(8, {{.memory = 80 * gib, .context = gib}}));
  for (const double gpus : {0.0, 0.5, 1.0}) {
    const auto never = accounting.ledger.why_not(Need(gpu_memory(gpus, 80 * gib), Tenant::task));
    EXPECT_EQ(never.code, ReasonCode::gpu_memory_too_small);
    EXPECT_EQ(never.available, Quantity::whole(79 * gib));
  }
  ASSERT_THAT(accounting.book(gpu_memory(0.1, 69 * gib)), ElementsAre(0));
  const auto busy = accounting.ledger.why_not(Need(gpu_memory(0.1, 10 * gib), Tenant::task));
  EXPECT_EQ(busy.code, ReasonCode::gpu_memory_busy);
  EXPECT_EQ(busy.needed, Quantity::whole(10 * gib));
  EXPECT_EQ(busy.available, Quantity::whole(9 * gib));
  EXPECT_THAT(accounting.book(gpu_memory(0.1, 9 * gib)), ElementsAre(0));
}

TEST(InstanceLedger, BundleMemory_IsUsableByOneProcess) {
  const auto shape = node_shape(8, {{.memory = 80 * gib, .context = gib}});
  Books node(shape);
  ASSERT_THAT(node.book(gpu_memory(0.5, 20 * gib)), ElementsAre(0));
  const InstanceLayout layout(shape);
  InstanceLedger bundle(layout, *node.last);
  EXPECT_TRUE(bundle.fits(Need(gpu_memory(0.5, 20 * gib), Tenant::task)));
  EXPECT_FALSE(bundle.can_ever(Need(gpu_memory(0.5, 20 * gib + 1), Tenant::task)));
  ASSERT_TRUE(bundle.book(Need(gpu_memory(0.2, 10 * gib), Tenant::task)));
  EXPECT_FALSE(bundle.fits(Need(gpu_memory(0.2, 10 * gib), Tenant::task)))
      << "two processes have two contexts";
  EXPECT_TRUE(bundle.fits(Need(gpu_memory(0.2, 9 * gib), Tenant::task)));
}

TEST(InstanceLedger, OrdersEqualRemaindersByBytes) {
  Books accounting(node_shape(8, {{1, 80 * gib}, {1, 40 * gib}}));
  EXPECT_THAT(accounting.book(gpu_memory(0.5, 10 * gib)), ElementsAre(1));
}

TEST(InstanceLedger, AcceleratorType_RestrictsMixedNodes) {
  Books accounting(node_shape(8, {{1, 0, {"A100", "A100-40G"}}, {1, 0, {"H100"}}}));
  EXPECT_THAT(accounting.book(typed(1, "H100")), ElementsAre(1));
  EXPECT_EQ(accounting.refusal(typed(1, "H100")), ReasonCode::accelerator_type_busy);
  EXPECT_EQ(accounting.refusal(typed(1, "L4")), ReasonCode::accelerator_type_absent);
  EXPECT_EQ(accounting.refusal(typed(2, "H100")), ReasonCode::resource_too_small);
  EXPECT_THAT(accounting.book(typed(0.5, "A100-40G")), ElementsAre(0));
}

TEST(InstanceLedger, TypeWithoutDevices_RestrictsOnlyNode) {
  auto shape = node_with(8, 0);
  shape.accelerator_types = {"H100"};
  Books accounting(shape);
  Request any;
  any.accelerator_type = "H100";
  for (int i = 0; i < 900; ++i) {
    accounting.book(any);
    ASSERT_TRUE(accounting.last) << i;
  }
  EXPECT_EQ(accounting.ledger.types_in_use().at("H100"), amount(0.9));
  any.accelerator_type = "L4";
  EXPECT_EQ(accounting.refusal(any), ReasonCode::accelerator_type_absent);
}

TEST(InstanceLedger, TypeAmongResources_IsSameConstraint) {
  Books accounting(node_shape(8, {{1, 0, {"A100"}}, {1, 0, {"H100"}}}));
  EXPECT_THAT(accounting.book(request({{"GPU", 1}, {"accelerator_type:H100", 1}})), ElementsAre(1));
  EXPECT_EQ(accounting.ledger.types_in_use().at("H100"), amount(0.001));
}

TEST(InstanceLedger, RequiredTotals_AreNotAllocated) {
  Books accounting(node_with(1, 0));
  Request actor;
  actor.required_totals = ResourceSet{{"CPU", amount(1)}};
  const Need need(actor, Tenant::actor);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(accounting.ledger.book(need));
  EXPECT_EQ(accounting.ledger.available("CPU"), amount(1));
  InstanceLedger no_cpu(node_with(0, 0), 1000);
  EXPECT_EQ(no_cpu.why_not(need).code, ReasonCode::resource_absent);
}

TEST(InstanceLedger, SeparatesTaskAndActorExecutors) {
  auto shape = node_with(8, 0);
  shape.task_executors = 1;
  shape.actor_executors = 0;
  Books accounting(shape);
  accounting.book(cpus(1));
  EXPECT_EQ(accounting.refusal(cpus(1)), ReasonCode::executors_full);
  const auto never = accounting.ledger.why_not(Need(cpus(1), Tenant::actor));
  EXPECT_EQ(never.code, ReasonCode::resource_absent);
  EXPECT_EQ(never.what, "executors");
}

TEST(InstanceLedger, RestoredBeyondTotal_StartsNothing) {
  Books accounting(node_with(1, 1));
  Allocation held;
  held.resources = {{"CPU", {{0, amount(2), 0}}}, {"GPU", {{0, amount(1), 0}, {7, amount(1), 0}}}};
  accounting.ledger.restore(held, {});
  EXPECT_EQ(accounting.ledger.available("CPU"), amount(0) - amount(1));
  EXPECT_EQ(accounting.refusal(Request()), ReasonCode::oversubscribed);
  const Books untouched(node_with(1, 1));
  accounting.ledger.free(held, {});
  EXPECT_EQ(accounting.ledger, untouched.ledger);
}

TEST(InstanceLedger, RejectsForgedNegativeAmounts) {
  Books accounting(node_with(8, 1));
  Request forged;
  forged.resources.set("CPU", -amount(1));
  EXPECT_EQ(accounting.refusal(forged), ReasonCode::resource_too_small);
  EXPECT_EQ(accounting.refusal(gpu_memory(0.5, -1)), ReasonCode::gpu_memory_too_small);
}

}  // namespace
}  // namespace mobula::internal::scheduler
