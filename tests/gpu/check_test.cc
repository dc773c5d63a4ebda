// The run on a GPU, in its short form on simulated ones; and what is made of its records.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "gpu/check/records.h"
#include "gpu/gpu_fixture.h"

namespace mobula::internal::gpu_check {
namespace {

using testing::HasSubstr;

std::vector<Json> lines_of(std::initializer_list<Json> lines) { return lines; }

Json probe(const char* call, int status) {
  return {{"stage", "probe"}, {"what", "probe"}, {"value", {{"call", call}, {"what", ""}, {"status", status}}}};
}

TEST(SimulatedGpuCheck, AllStagesThatAreBuiltPass) {
  const SimulatedMachine machine("late_us=20 memory=2147483648");
  const std::string file = machine.folder() + "/results.jsonl";
  const auto end = machine.run([&] {
    ::alarm(170);
    ::execl(GPU_CHECK, "mobula-gpu-check", "--short", "--out", file.c_str(), nullptr);
  });
  EXPECT_TRUE(end.ok) << end.said;
  const auto records = read_records(file);
  ASSERT_TRUE(records) << end.said;
  std::map<std::string, std::string> status;
  for (const Json& each : *records) {
    if (each.contains("status")) status[each["stage"]] = each["status"];
    EXPECT_NE(each.value("holds", true), false) << each;
  }
  for (const Stage& stage : stages()) {
    const std::string seen = status[std::string(stage.name)];
    if (stage.run == nullptr) {
      EXPECT_EQ(seen, "not built");
    } else if (stage.name == "torch") {
      EXPECT_TRUE(seen == "passed" || seen == "skipped") << seen << end.said;  // as this machine has a PyTorch
    } else {
      EXPECT_EQ(seen, "passed") << stage.name << end.said;
    }
  }
  EXPECT_EQ(records->front()["run"]["simulated"], true);
  EXPECT_THAT(page_of(*records), HasSubstr("These are simulated devices"));
  EXPECT_TRUE(differences(*records, *records).empty());
}

TEST(GpuCheck, IsOverInLessThanTenMinutesWhateverHangs) {
  int whole = 0;
  for (const Stage& stage : stages()) whole += stage.run == nullptr ? 0 : stage.limit_s;
  EXPECT_LE(whole, 585);
}

TEST(GpuCheck, WhatPythonIsGivenMakesTensorsAndTakesThem) {
  void* const shim = ::dlopen(TORCH_SHIM, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(shim, nullptr) << ::dlerror();
  auto* const make = reinterpret_cast<void* (*)(int, int)>(::dlsym(shim, "mobula_shim_make"));
  auto* const sum = reinterpret_cast<long long (*)(void*)>(::dlsym(shim, "mobula_shim_sum"));
  auto* const error = reinterpret_cast<const char* (*)()>(::dlsym(shim, "mobula_shim_error"));
  ASSERT_TRUE(make != nullptr && sum != nullptr && error != nullptr);
  void* const managed = make(1'000, 0);
  ASSERT_NE(managed, nullptr) << error();
  EXPECT_EQ(sum(managed), 999 * 1'000 / 2);
  EXPECT_EQ(make(1'000, 1), nullptr) << "no device was opened";
  EXPECT_THAT(error(), HasSubstr("num_gpus"));
}

TEST(GpuCheck, WithoutADriverEveryStageSaysSo) {
  char pattern[] = "/tmp/gpu-check-XXXXXX";
  const std::string folder = ::mkdtemp(pattern);
  const std::string command = "MOBULA_CUDA_LIBRARY=libno-such-cuda.so MOBULA_NVML_LIBRARY=libno-such-nvml.so " + std::string(GPU_CHECK) +
                              " --short --out " + folder + "/r.jsonl > /dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const auto records = read_records(folder + "/r.jsonl");
  ASSERT_TRUE(records);
  int skipped = 0;
  for (const Json& each : *records) skipped += each.value("status", "") == "skipped" ? 1 : 0;
  EXPECT_GE(skipped, 5);
  std::filesystem::remove_all(folder);
}

TEST(GpuCheck, APageWithoutARunSaysThatNothingWasMeasured) {
  const std::string page = page_of({});
  EXPECT_THAT(page, HasSubstr("There was no run yet"));
  for (const Stage& stage : stages()) EXPECT_THAT(page, HasSubstr(fmt::format("## {}\n", stage.name)));
  std::ifstream file(GPU_RESULTS_PAGE);
  const std::string there((std::istreambuf_iterator<char>(file)), {});
  // Until there was a run on hardware the page in the repository is this one.
  if (there.find("There was no run yet") == std::string::npos) return;
  EXPECT_EQ(there, page) << "mobula-gpu-check --render ''";
}

TEST(GpuCheck, AFailureIsOnThePage) {
  const auto page = page_of(lines_of({{{"run", {{"date", "today"}}}},
                                      {{"stage", "shares"}, {"what", "bytes come back"}, {"holds", false}, {"seen", "7 | 8"}},
                                      {{"stage", "shares"}, {"status", "failed"}, {"reason", "bytes come back"}, {"seconds", 1.5}}}));
  EXPECT_THAT(page, HasSubstr("**failed, 1.5 s of 30** (bytes come back)"));
  EXPECT_THAT(page, HasSubstr("| bytes come back | **does not hold**: 7 \\| 8 |"));
}

TEST(GpuCheck, ProbesAreComparedCallByCall) {
  const auto simulated = lines_of({probe("cuInit", 0), probe("cuInit", 0), probe("cuMemMap", 1)});
  const auto real = lines_of({probe("cuInit", 0), probe("cuInit", 3), probe("cuMemFree", 0)});
  EXPECT_THAT(differences(simulated, real),
              testing::ElementsAre("cuInit (2): 0 and 3", "cuMemMap (1): 1 and not asked", "cuMemFree (1): not asked and 0"));
}

}  // namespace
}  // namespace mobula::internal::gpu_check
