#include "deploy/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ostream>
#include <sstream>

#include "protocol/program/cluster_files.h"

namespace mobula::internal::deploy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Inventory> parsed(const std::string& text) {
  return parse_inventory(text, "c.yaml", "/folder");
}

TEST(Inventory, ReadsHeadAndWorkersWithDefaults) {
  const auto inventory = parsed(R"(
workers:
  - 10.0.0.2
  - {host: "gpu[01-02]", num_gpus: 8, num_cpus: 4, ssh_port: 2222, labels: {zone: a, disk: ssd}, flags: [--spin-us=0]}
head: {host: 10.0.0.1, port: 6379, worker: false}
defaults: {num_cpus: 2}
auth: {ssh_user: mobula, ssh_private_key: keys/id, accept_new_hosts: true}
cluster_name: blue
grace_seconds: 7
)");
  ASSERT_TRUE(inventory) << inventory.error().text;
  EXPECT_EQ(inventory->cluster, "blue");
  EXPECT_EQ(inventory->grace, 7s);
  ASSERT_EQ(inventory->hosts.size(), 4U);
  const auto& hosts = inventory->hosts;
  EXPECT_TRUE(hosts[0].head);
  EXPECT_THAT(hosts[0].flags, ElementsAre("--num-cpus=2", "--port=6379", "--no-worker",
                                          "--bind=0.0.0.0", "--advertise=10.0.0.1"));
  EXPECT_EQ(hosts[1].name, "10.0.0.2");
  EXPECT_THAT(hosts[1].flags, ElementsAre("--num-cpus=2"));
  EXPECT_EQ(hosts[1].access.user, "mobula");
  EXPECT_EQ(hosts[1].access.private_key, "/folder/keys/id");
  EXPECT_FALSE(hosts[1].access.port);
  EXPECT_EQ(hosts[3].name, "gpu02");
  EXPECT_EQ(hosts[3].access.port, 2222);
  EXPECT_TRUE(hosts[3].access.accept_new_hosts);
  EXPECT_THAT(hosts[3].flags, ElementsAre("--num-gpus=8", "--num-cpus=4",
                                          "--labels=zone=a,disk=ssd", "--spin-us=0"));
}

TEST(Inventory, AcceptsHeadOnly) {
  const auto inventory =
      parsed("head: {host: here, resources: {shuttle: 2, fpga: {total: 4, unit: true}}}");
  ASSERT_TRUE(inventory) << inventory.error().text;
  ASSERT_EQ(inventory->hosts.size(), 1U);
  EXPECT_EQ(inventory->hosts[0].flags[0],
            R"(--resources={"shuttle":"2","fpga":{"total":"4","unit":true}})");
}

struct Fault {
  const char* text;
  const char* expected;
};

// The name of the test, equal in every run.
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.expected; }

class InventoryFault : public ::testing::TestWithParam<Fault> {};

TEST_P(InventoryFault, NamesLineAndKey) {
  const auto inventory = parsed(GetParam().text);
  ASSERT_FALSE(inventory);
  EXPECT_EQ(inventory.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(inventory.error().text, HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Each, InventoryFault,
    ::testing::Values(Fault{"workers: []", "c.yaml:1: has no 'head'"},
                      Fault{"head: {host: a}\nworker: [b]", "c.yaml:2: worker: is unknown"},
                      Fault{"head:\n  host: a\n  port: 99999", "c.yaml:3: head.port: '99999'"},
                      Fault{"head: {host: a}\nworkers:\n  - b\n  - {host: c, num_cpus: x}",
                            "c.yaml:4: workers[1].num_cpus: "},
                      Fault{"head: {host: a}\nworkers:\n  - b\n  - a",
                            "c.yaml:4: workers[1]: host a is given twice"},
                      Fault{"head: {host: a}\nworkers: [\"n[3-1]\"]", "c.yaml:2: workers[0]: "},
                      Fault{"head: {host: \"n[1-2]\"}", "head: is one host"},
                      Fault{"head: {host: -oProxyCommand=x}",
                            "head.host: '-oProxyCommand=x' is not a name"},
                      Fault{"head: {host: \"a b\"}", "head.host: 'a b' is not a name"},
                      Fault{"head: {host: a}\nworkers: b", "c.yaml:2: workers: is not a list"},
                      Fault{"head: {host: a}\nauth: {accept_new_hosts: maybe}",
                            "c.yaml:2: auth.accept_new_hosts: 'maybe'"},
                      Fault{"head: {host: a}\ncluster_name: ../x", "c.yaml:2: cluster_name: "},
                      Fault{"head: {host: a}\nstate_dir:", "c.yaml:2: state_dir: has no value"},
                      Fault{"head: {host: a}\nhead: {host: b}", "head: is given twice"},
                      Fault{"head: {host: a", "c.yaml:"}));

TEST(Inventory, NamesMissingFile) {
  const auto inventory = read_inventory("/nowhere/c.yaml");
  ASSERT_FALSE(inventory);
  EXPECT_EQ(inventory.error().code, ErrorCode::invalid_argument) << "wrong use";
  EXPECT_THAT(inventory.error().text, HasSubstr("/nowhere/c.yaml"));
}

TEST(Inventory, NamesMissingSshKeyBeforeConnecting) {
  const std::string file = testing::TempDir() + "mobula-inventory-key.yaml";
  ASSERT_TRUE(
      write_file(file, "head: {host: a}\nauth: {ssh_private_key: /nowhere/id}\n", 0600).ok());
  const auto inventory = read_inventory(file);
  std::remove(file.c_str());
  ASSERT_FALSE(inventory);
  EXPECT_EQ(inventory.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(inventory.error().text, HasSubstr("/nowhere/id"));
}

// The members that an error message lists as known.
std::vector<std::string> known_members(const std::string& text) {
  const std::string message = parsed(text).error().text;
  std::istringstream names(message.substr(message.rfind("give one of ") + 12));
  std::vector<std::string> known;
  for (std::string name; std::getline(names >> std::ws, name, ',');) known.push_back(name);
  return known;
}

TEST(Inventory, ExampleAndPage_ShowEveryMember) {
  const std::string root = MOBULA_SOURCE_DIR;
  const auto file = read_file(root + "/deploy/ssh/cluster.yaml");
  const auto page = read_file(root + "/docs/cluster-file.md");
  ASSERT_TRUE(file.ok() && page.ok());
  const auto example = parsed(*file);
  ASSERT_TRUE(example.ok()) << example.error().text;
  EXPECT_EQ(example->hosts.size(), 18u);
  std::size_t members = 0;
  for (const char* wrong : {"nothing: 1", "head: {nothing: 1}", "auth: {nothing: 1}"}) {
    for (const std::string& each : known_members(wrong)) {
      ++members;
      EXPECT_THAT(*file, HasSubstr(each + ":")) << wrong;
      EXPECT_THAT(*page, HasSubstr(each)) << wrong;
    }
  }
  EXPECT_GT(members, 25u);
}

}  // namespace
}  // namespace mobula::internal::deploy
