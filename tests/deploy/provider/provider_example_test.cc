// Runs the example of docs/providers.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "deploy/fleet/provider_process.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::fleet {
namespace {

namespace fs = std::filesystem;

std::string example_of_page() {
  const auto page = read_file(std::string(MOBULA_SOURCE_DIR) + "/docs/providers.md");
  if (!page) return {};
  const std::string fence = "```python\n";
  const auto begin = page->find(fence);
  if (begin == std::string::npos) return {};
  return page->substr(begin + fence.size(), page->find("\n```", begin) + 1 - begin - fence.size());
}

class ProviderExample : public ::testing::Test {
 protected:
  void SetUp() override {
    home_ = ::testing::TempDir() + "provider-example-" + std::to_string(::getpid());
    fs::create_directories(home_ + "/bin");
    ASSERT_TRUE(write_file(home_ + "/provider", example_of_page(), 0700));
    // In place of agents.
    ASSERT_TRUE(write_file(home_ + "/bin/mobula", "#!/bin/sh\nexec sleep 1000\n", 0700));
    path_ = std::getenv("PATH");
    ::setenv("PATH", (home_ + "/bin:" + path_).c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    fs::remove_all(home_);
  }

  ProviderReply call(ProviderCall call, std::vector<InstanceSpec> instances = {}) {
    ProviderRequest request{.call = call, .cluster = "lab", .cluster_id = "3f2a"};
    request.settings = {{"directory", home_}};
    request.instances = std::move(instances);
    provider_.start(std::move(request));
    std::vector<ProviderReply> replies;
    const Time until = monotonic_now() + 60s;
    while ((replies = provider_.step(monotonic_now())).empty() && monotonic_now() < until) {
      std::vector<pollfd> items;
      provider_.watch(items);
      ::poll(items.data(), items.size(), 1000);
    }
    return replies.empty() ? ProviderReply{} : replies.front();
  }

  std::string home_;
  std::string path_;
  ProviderProcess provider_{{.words = {::testing::TempDir() + "provider-example-" +
                                       std::to_string(::getpid()) + "/provider"}}};
};

TEST_F(ProviderExample, AnswersEveryCall) {
  const auto described = call(ProviderCall::describe);
  ASSERT_FALSE(described.error) << described.error->text;
  EXPECT_EQ(described.provider, "example");
  const InstanceSpec wanted{.name = "mobula-3f2a-1",
                            .type = "small",
                            .ticket = "secret",
                            .labels = {{"mobula.io/instance", "mobula-3f2a-1"}}};
  const auto launched = call(ProviderCall::launch, {wanted});
  ASSERT_EQ(launched.instances.size(), 1u);
  ASSERT_FALSE(launched.instances[0].error) << launched.instances[0].error->text;
  const auto ref = launched.instances[0].ref;
  EXPECT_EQ(call(ProviderCall::launch, {wanted}).instances[0].ref, ref);
  const auto listed = call(ProviderCall::list);
  ASSERT_EQ(listed.instances.size(), 1u);
  EXPECT_EQ(listed.instances[0].ref, ref);
  EXPECT_FALSE(call(ProviderCall::end, {{.name = wanted.name, .ref = ref}}).instances[0].error);
  const Time until = monotonic_now() + 60s;
  while (!call(ProviderCall::list).instances.empty() && monotonic_now() < until) {
  }
  EXPECT_TRUE(call(ProviderCall::list).instances.empty());
}

}  // namespace
}  // namespace mobula::internal::fleet
