// The run on a GPU in its short form on simulated devices: verdicts, time budget, records, pages,
// and the index.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "device/gpu/check/budget.h"
#include "device/gpu/check/records.h"
#include "device/gpu/gpu_fixture.h"

namespace mobula::internal::gpu_check {
namespace {

using testing::HasSubstr;

std::vector<Json> lines_of(std::initializer_list<Json> lines) { return lines; }

Json probe(const char* call, int status) {
  return {{"stage", "probe"},
          {"what", "probe"},
          {"value", {{"call", call}, {"what", ""}, {"status", status}}}};
}

// Runs mobula-gpu-check with `words` on a simulated machine and returns the record of its results
// directory.
class SimulatedRun : public testing::Test {
 protected:
  explicit SimulatedRun(const std::string& words = "late_us=20 memory=2147483648")
      : machine_(words), results_(machine_.directory() + "/results") {}

  pid_t start(std::vector<std::string> words, const std::string& more = {}) {
    words.insert(words.begin(), {GPU_CHECK, "--results", results_, "--short"});
    running_ = machine_.start(
        [&] {
          std::vector<char*> argv;
          for (auto& each : words) argv.push_back(each.data());
          argv.push_back(nullptr);
          ::setenv("MOBULA_GPU_KERNELS", GPU_KERNELS, 1);
          ::execv(GPU_CHECK, argv.data());
        },
        more);
    return running_.process;
  }
  // The exit code; negative for a signal.
  int finish() {
    char text[4096];
    for (ssize_t count = 0; (count = ::read(running_.said, text, sizeof text)) > 0;)
      output_.append(text, static_cast<std::size_t>(count));
    ::close(running_.said);
    int status = 0;
    ::waitpid(running_.process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // The only record, or an empty one before it exists.
  RunRecord record() const {
    auto runs = read_runs(results_);
    return runs.empty() ? RunRecord() : std::move(runs.front());
  }
  std::string page() const {
    std::ifstream file(results_ + "/" + record().name + ".md");
    return {(std::istreambuf_iterator<char>(file)), {}};
  }
  std::string verdict(const std::string& stage) const {
    for (const Json& each : record().records) {
      if (each.value("stage", "") == stage && each.contains("status"))
        return each["status"].get<std::string>() + ": " + each.value("reason", "");
    }
    return "none";
  }
  template <class Condition>
  bool eventually(const Condition& condition) {
    for (int i = 0; i < 2'000 && !condition(); ++i) ::usleep(5'000);
    return condition();
  }

  SimulatedMachine machine_;
  std::string results_, output_;
  SimulatedMachine::Running running_;
};
class SimulatedGpuCheck : public SimulatedRun {};

// The test of the bundle runs all stages.
TEST_F(SimulatedGpuCheck, RecordsPassedStages) {
  const std::vector<std::string> names{"facts",         "probe", "vmm", "memory after exit",
                                       "two processes", "shares"};
  start({"--only", fmt::format("{}", fmt::join(names, ","))});
  EXPECT_EQ(finish(), 0) << output_;
  const auto records = record().records;
  ASSERT_FALSE(records.empty());
  for (const Json& each : records) EXPECT_NE(each.value("holds", true), false) << each;
  for (const auto& name : names) EXPECT_EQ(verdict(name), "passed: ") << name;
  EXPECT_EQ(records.front()["run"]["simulated"], true);
  EXPECT_THAT(page(), HasSubstr("These are simulated devices"));
  EXPECT_TRUE(differences(records, records).empty());
}

TEST_F(SimulatedGpuCheck, JoinsRanksOfOneHostWithNewerNccl) {
  start({"--only", "nccl multi-rank"}, "nccl=23007");
  EXPECT_EQ(finish(), 0) << output_;
  EXPECT_EQ(verdict("nccl multi-rank"), "passed: ");
}

TEST_F(SimulatedGpuCheck, SharesGpuByNcclInCluster) {
  start({"--only", "cluster nccl"}, "memory=8589934592 nccl=23007");
  EXPECT_EQ(finish(), 0) << output_;
  EXPECT_EQ(verdict("cluster nccl"), "passed: ") << page();
  EXPECT_THAT(page(), HasSubstr("3 actors of one GPU, a tensor of 2097152 bytes by nccl"));
  EXPECT_THAT(page(), HasSubstr("a member with the switch at 0 is refused"));
}

TEST_F(SimulatedGpuCheck, RefusesSharedGpuWithOlderNccl) {
  start({"--only", "cluster nccl"});
  EXPECT_EQ(finish(), 0) << output_;
  EXPECT_EQ(verdict("cluster nccl"), "passed: ") << page();
  EXPECT_THAT(page(), HasSubstr("a strict transfer is refused with the same remedy | holds"));
}

TEST_F(SimulatedGpuCheck, FailsWhenPointersEscapeInterception) {
  start({"--only", "interception"}, "wraps=cuMemAlloc");
  EXPECT_EQ(finish(), 1) << output_;
  EXPECT_THAT(verdict("interception"),
              testing::StartsWith("failed: pointers of cuGetProcAddress equal those of dlsym"));
  EXPECT_THAT(page(), HasSubstr("cuMemAlloc 3020 0"));
}

TEST_F(SimulatedGpuCheck, EndsHangingStageAtItsLimit) {
  start({"--only", "nccl hosts,two processes", "--limit", "1"}, "hang=init@1");
  EXPECT_EQ(finish(), 1) << output_;
  EXPECT_EQ(verdict("nccl hosts"), "failed: ended at its limit of 1 s");
  EXPECT_THAT(page(), HasSubstr("ended at its limit of 1 s"));
  EXPECT_EQ(verdict("two processes"), "passed: ") << "stages after it run";
}

TEST_F(SimulatedGpuCheck, SkipsStagesWithoutTime) {
  start({"--only", "facts,vmm", "--budget", "25"});
  EXPECT_EQ(finish(), 0) << output_;
  EXPECT_EQ(verdict("facts"), "passed: ");
  EXPECT_THAT(verdict("vmm"), testing::StartsWith("skipped: no time: needs 65 s, "));
}

TEST_F(SimulatedGpuCheck, LeavesPageWhenKilled) {
  const pid_t run = start({"--only", "facts,nccl hosts"}, "hang=init@1");
  ASSERT_TRUE(eventually([&] {
    return page().find("the machine, its driver and libraries: **passed") != std::string::npos;
  }));
  ::kill(run, SIGKILL);
  EXPECT_EQ(finish(), -SIGKILL);
  EXPECT_EQ(verdict("facts"), "passed: ");
  EXPECT_THAT(page(), HasSubstr("separate hosts: **not run**"));
}

TEST_F(SimulatedGpuCheck, FinishesPageWhenTerminated) {
  const pid_t run = start({"--only", "facts,nccl hosts,shares"}, "hang=init@1");
  ASSERT_TRUE(eventually([&] { return verdict("facts") != "none"; }));
  ::kill(run, SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGTERM) << output_;
  EXPECT_EQ(verdict("nccl hosts"), "skipped: the run was ended by signal 15");
  EXPECT_EQ(verdict("shares"), "skipped: the run was ended by signal 15");
  EXPECT_THAT(page(), HasSubstr("**skipped** (the run was ended by signal 15)"));
}

TEST(GpuCheck, KeepsBudgetWhenEveryStageHangs) {
  for (const double total : {10.0, 100.0, 480.0, 520.0}) {
    const Budget budget(total);
    double elapsed = 0;
    int admitted = 0;
    for (const Stage& stage : stages()) {
      if (budget.skip_reason(elapsed, stage.limit_s)) continue;
      elapsed += stage.limit_s + Budget::cleanup_s;
      ++admitted;
    }
    EXPECT_LE(elapsed, total);
    EXPECT_EQ(admitted > 0, total > 30);
  }
}

TEST(GpuCheck, CountsStageAsSkippedWithoutCheck) {
  testing::internal::CaptureStdout();
  Findings values("stage", true, 1s);
  values.value("kernel", "6.1");
  EXPECT_EQ(values.exit_code(), 0);
  values.cannot("no driver");
  EXPECT_EQ(values.exit_code(), Findings::skipped) << "a value does not outweigh cannot()";
  values.holds("a check", true);
  EXPECT_EQ(values.exit_code(), 0);
  values.holds("a check", false);
  EXPECT_EQ(values.exit_code(), 1);
  testing::internal::GetCapturedStdout();
}

TEST(GpuCheck, RejectsUnknownStage) {
  const int status = std::system(
      (std::string(GPU_CHECK) + " --results /tmp/no-such --only no-such-stage 2> /dev/null")
          .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

TEST(GpuCheck, PassesTensorsThroughPythonShim) {
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

TEST(GpuCheck, PassesNothingWithoutDriver) {
  char pattern[] = "/tmp/gpu-check-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  const std::string command =
      "MOBULA_CUDA_LIBRARY=libno-such-cuda.so MOBULA_NVML_LIBRARY=libno-such-nvml.so "
      "MOBULA_NCCL_LIBRARY=libno-such-nccl.so " +
      std::string(GPU_CHECK) + " --short --results " + directory + " > /dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
  const auto runs = read_runs(directory);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_THAT(runs[0].name, testing::StartsWith("no-gpu-"));
  std::size_t skipped = 0;
  for (const Json& each : runs[0].records) {
    if (!each.contains("status")) continue;
    EXPECT_EQ(each["status"], "skipped") << each;
    EXPECT_NE(each.value("reason", ""), "") << each;
    ++skipped;
  }
  EXPECT_EQ(skipped, stages().size());
  std::filesystem::remove_all(directory);
}

TEST(GpuCheck, KeepsIndexOfResultsCurrent) {
  EXPECT_THAT(index_of({}), HasSubstr("No run has taken place yet"));
  for (const Stage& stage : stages())
    EXPECT_THAT(index_of({}),
                HasSubstr(fmt::format("| {} | {} | not measured |\n", stage.name, stage.shows)));
  std::ifstream file(std::string(GPU_RESULTS) + "/README.md");
  const std::string present((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(present, index_of(read_runs(GPU_RESULTS)))
      << "mobula-gpu-check --index docs/gpu-results";
}

TEST(GpuCheck, ListsRunsInIndex) {
  const RunRecord run{
      "nvidia-l4-2026-01-02",
      lines_of(
          {{{"run",
             {{"date", "2026-01-02 03:04 UTC"},
              {"device", "NVIDIA L4"},
              {"driver", "580.1"},
              {"commit", "abc"}}}},
           {{"stage", "facts"}, {"status", "passed"}, {"reason", ""}, {"seconds", 1.0}},
           {{"stage", "vmm"}, {"status", "skipped"}, {"reason", "no time"}, {"seconds", 0.0}}})};
  const std::string index = index_of({run});
  EXPECT_THAT(index, HasSubstr("| [2026-01-02 03:04 UTC](nvidia-l4-2026-01-02.md) | NVIDIA L4 | "
                               "580.1 | abc | 1 | 0 | 1 |\n"));
  EXPECT_THAT(index, HasSubstr("| [nvidia-l4-2026-01-02](nvidia-l4-2026-01-02.md) |\n"));
  EXPECT_EQ(result_name("NVIDIA H100 80GB HBM3", "2026-01-02"), "nvidia-h100-80gb-hbm3-2026-01-02");
  EXPECT_EQ(result_name("", "2026-01-02"), "no-gpu-2026-01-02");
}

TEST(GpuCheck, ShowsFailureOnPage) {
  const auto page = page_of(lines_of(
      {{{"run", {{"date", "2026-01-02"}}}},
       {{"stage", "shares"}, {"what", "bytes return"}, {"holds", false}, {"seen", "7 | 8"}},
       {{"stage", "shares"}, {"status", "failed"}, {"reason", "bytes return"}, {"seconds", 1.5}}}));
  EXPECT_THAT(page, HasSubstr("**failed, 1.5 s of 30** (bytes return)"));
  EXPECT_THAT(page, HasSubstr("| bytes return | **does not hold**: 7 \\| 8 |"));
}

TEST(GpuCheck, ReadsRecordOfKilledRun) {
  char pattern[] = "/tmp/gpu-check-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  std::ofstream(directory + "/gpu-2026-01-02.jsonl") << R"({"run":{"device":"GPU"}})"
                                                     << "\n"
                                                     << R"({"stage":"facts","wh)";
  const auto runs = read_runs(directory);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].records.size(), 1u);
  std::filesystem::remove_all(directory);
}

TEST(GpuCheck, ComparesProbesCallByCall) {
  const auto simulated = lines_of({probe("cuInit", 0), probe("cuInit", 0), probe("cuMemMap", 1)});
  const auto real = lines_of({probe("cuInit", 0), probe("cuInit", 3), probe("cuMemFree", 0)});
  EXPECT_THAT(differences(simulated, real),
              testing::ElementsAre("cuInit (2): 0 and 3", "cuMemMap (1): 1 and not called",
                                   "cuMemFree (1): not called and 0"));
}

}  // namespace
}  // namespace mobula::internal::gpu_check
