// On the simulation, the answers of the probe equal those that Mobula expects.
#include <nlohmann/json.hpp>
#include <sstream>

#include "device/gpu/gpu_fixture.h"

namespace mobula::internal {
namespace {

TEST(SimulatedProbe, MatchesExpectedDriverBehavior) {
  const SimulatedMachine machine("late_us=50");
  const auto end = machine.run([] { ::execl(GPU_PROBE, "gpu_probe_program", nullptr); });
  EXPECT_TRUE(end.ok) << end.said;
  std::istringstream lines(end.said);
  int calls = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto read = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(read.is_object()) << line;
    if (!read.contains("call")) continue;
    ++calls;
    EXPECT_TRUE(read.at("same").get<bool>()) << line;
  }
  EXPECT_GE(calls, 60);
  EXPECT_NE(end.said.find("SIMULATED"), std::string::npos);
}

TEST(GpuProbe, DriverMissing_IsReported) {
  if (std::getenv("MOBULA_CUDA_LIBRARY") != nullptr) GTEST_SKIP() << "a driver is named";
  const std::string command =
      std::string("MOBULA_CUDA_LIBRARY=libno-such-cuda.so ") + GPU_PROBE + " > /dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

}  // namespace
}  // namespace mobula::internal
