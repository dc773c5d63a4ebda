// Device memory in bundles of placement groups, and in tasks that run in them.
#include <gtest/gtest.h>

#include <mobula/detail/request.h>
#include <mobula/errors.h>

namespace mobula::detail {
namespace {

TEST(PlacementOptions, ChecksGpuMemoryAgainstBundles) {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  const mobula::PlacementGroup group({1, 2},
                                     {{{"CPU", 1}, {"gpu_memory", 12 * gib}},
                                      {{"CPU", 1}, {"GPU", 0.5}, {"gpu_memory", 12 * gib}},
                                      {{"CPU", 1}, {"GPU", 1}, {"gpu_memory", 12 * gib}},
                                      {{"CPU", 1}, {"GPU", 0.5}},
                                      {{"CPU", 1}}},
                                     mobula::Strategy::pack);
  const auto fits = [&](int bundle, double gpus, std::int64_t bytes) {
    return prepare(TaskOptions{.num_gpus = gpus,
                               .gpu_memory = bytes,
                               .placement = mobula::Placement{group, bundle}})
        .ok();
  };
  EXPECT_TRUE(fits(0, 0, 12 * gib));
  EXPECT_FALSE(fits(0, 0, 12 * gib + 1));
  EXPECT_TRUE(fits(0, 0.5, 0)) << "which part of a device it is, is known when it has a place";
  EXPECT_FALSE(fits(0, 1, 0));
  EXPECT_TRUE(fits(1, 0.5, 12 * gib));
  EXPECT_FALSE(fits(1, 0.5, 12 * gib + 1));
  EXPECT_FALSE(fits(1, 0.6, 0));
  EXPECT_TRUE(fits(2, 0, 13 * gib)) << "the device may have more memory than requested";
  EXPECT_TRUE(fits(3, 0, 13 * gib)) << "half of the memory of the device";
  EXPECT_FALSE(fits(4, 0, 1));
}

TEST(Groups, AcceptsPrioritiesInRange) {
  const auto priority_of = [](int priority) {
    return prepare_group({{{"CPU", 1}}}, mobula::Strategy::pack, {.priority = priority}).priority;
  };
  EXPECT_EQ(priority_of(-1000), -1000);
  EXPECT_EQ(priority_of(1000), 1000);
  try {
    priority_of(1001);
    FAIL() << "out of range";
  } catch (const mobula::InvalidRequestError& refused) {
    EXPECT_EQ(refused.field(), "priority");
    EXPECT_EQ(refused.rule(), "from -1000 to 1000");
  }
}

TEST(Bundles, AcceptsGpuMemoryInWholeBytes) {
  const auto bytes_of = [](const mobula::Resources& bundle) {
    return mobula::detail::prepare_group({bundle}, mobula::Strategy::pack, {})
        .bundles.at(0)
        .gpu_memory_bytes;
  };
  EXPECT_EQ(bytes_of({{"gpu_memory", 8e9}}), 8'000'000'000) << "alone it is enough for a bundle";
  // The accounted maximum, at which doubles times 10000 are no longer exact.
  EXPECT_EQ(bytes_of({{"GPU", 1}, {"gpu_memory", 99'999'999'999'999}}), 99'999'999'999'999);
  const auto refused_for = [&](const mobula::Resources& bundle) -> std::string {
    try {
      bytes_of(bundle);
      return "nothing";
    } catch (const mobula::InvalidRequestError& refused) {
      return refused.field();
    }
  };
  EXPECT_EQ(refused_for({{"gpu_memory", 0.5}}), "bundles[0].gpu_memory");
  EXPECT_EQ(refused_for({{"gpu_memory", -1}}), "bundles[0].gpu_memory");
  EXPECT_EQ(refused_for({{"gpu_memory", 1e15}}), "bundles[0].gpu_memory");
  EXPECT_EQ(refused_for({{"gpu_memory", 0}}), "bundles[0]");
  EXPECT_EQ(refused_for({{"GPU", 1}, {"neuron_cores", 1}}), "bundles[0]");
  EXPECT_EQ(refused_for({{"GPU_MEMORY", 1}}), "resources");
  const auto task = prepare(TaskOptions{.resources = {{"gpu_memory", 1}}});
  ASSERT_FALSE(task.ok()) << "a task has an option for it";
  EXPECT_EQ(task.error().field, "resources");
}

}  // namespace
}  // namespace mobula::detail
