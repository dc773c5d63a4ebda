#include "deploy/fleet/node_types.h"

#include <gtest/gtest.h>

namespace mobula::internal::fleet {
namespace {

constexpr const char* good = R"(max_workers: 20
upscaling_speed: 0.5
idle_timeout_minutes: 2.5
target_wait_seconds: 45
request_resources: [{CPU: 4}, {GPU: 0.5}]
cluster_name: lab
provider: {type: ssh}
available_node_types:
  gpu:
    resources: {CPU: 16, GPU: 1.5, memory: 2GiB, fpga: {total: 2, unit: true}, license: 3}
    accelerator_type: H100
    gpu_memory: 80GiB
    labels: {zone: a}
    min_workers: 1
    max_workers: 10
  any-l4:
    resources:
      CPU: 8
      accelerator_type:L4: 1
)";

TEST(NodeLabels, ParsesMappingOfNamesToValues) {
  EXPECT_EQ(*parse_node_labels("zone: a\ndisk: ssd\n", "labels.yaml"),
            (Labels{{"disk", "ssd"}, {"zone", "a"}}));
  EXPECT_TRUE(parse_node_labels("", "labels.yaml")->empty());
  for (const char* text :
       {"- a", "zone", "zone: [a]", "zone: 'a b'", "zone: a\nzone: b", "-x: a", "{"}) {
    const auto read = parse_node_labels(text, "labels.yaml");
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().text.starts_with("labels.yaml:")) << read.error().text;
  }
}

TEST(NodeTypes, ReadsValidFileInFull) {
  const auto read = parse_node_types(good, "types.yaml");
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->limits.max_workers, 20);
  EXPECT_EQ(read->limits.upscaling_milli, 500);
  EXPECT_EQ(read->limits.idle_timeout, Duration(150s));
  EXPECT_EQ(read->limits.target_wait, Duration(45s));
  ASSERT_EQ(read->standing.size(), 2u);
  EXPECT_EQ(read->standing[1].request.resources.get("GPU"), Quantity::from_units(5000));
  ASSERT_EQ(read->types.size(), 2u);
  const auto& gpu = read->types[0];
  EXPECT_EQ(gpu.name, "gpu");
  EXPECT_EQ(gpu.min_workers, 1);
  EXPECT_EQ(gpu.max_workers, 10);
  EXPECT_EQ(gpu.shape.labels.at("zone"), "a");
  EXPECT_EQ(gpu.shape.labels.at("mobula.io/node-group"), "gpu");
  EXPECT_EQ(gpu.shape.task_executors, 64);
  EXPECT_EQ(gpu.shape.total("memory"), Quantity::whole(std::int64_t{2} << 30));
  const auto& devices = gpu.shape.find("GPU")->instances;
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].total, Quantity::whole(1));
  EXPECT_EQ(devices[1].total, Quantity::from_units(5000));
  EXPECT_EQ(devices[0].types, std::vector<std::string>{"H100"});
  EXPECT_EQ(devices[0].memory_bytes, std::int64_t{80} << 30);
  EXPECT_EQ(devices[0].context_bytes, default_context_bytes);
  EXPECT_EQ(gpu.shape.find("fpga")->instances.size(), 2u);
  EXPECT_TRUE(gpu.shape.find("fpga")->unit);
  EXPECT_EQ(gpu.shape.find("license")->instances.size(), 1u);
  EXPECT_EQ(read->types[1].max_workers, 20) << "that of all types";
  EXPECT_EQ(read->types[1].shape.accelerator_types, std::vector<std::string>{"L4"});
}

TEST(NodeTypes, AcceleratorTypeResource_NamesDevices) {
  const auto read = parse_node_types(R"(
max_workers: 4
available_node_types:
  gpu:
    resources:
      CPU: 8
      GPU: 2
      accelerator_type:H100: 1
)",
                                     "types.yaml");
  ASSERT_TRUE(read) << read.error().text;
  for (const auto& device : read->types[0].shape.find("GPU")->instances) {
    EXPECT_EQ(device.types, std::vector<std::string>{"H100"});
  }
}

struct Bad {
  const char* text;
  const char* complaint;
};

class BadNodeTypes : public ::testing::TestWithParam<Bad> {};

TEST_P(BadNodeTypes, RejectsWithLineKeyAndRule) {
  const auto read = parse_node_types(GetParam().text, "t.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(read.error().text, GetParam().complaint);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadNodeTypes,
    ::testing::Values(
        Bad{"", "t.yaml:1: the file is not a mapping of names to values"},
        Bad{"- a\n", "t.yaml:1: the file is not a mapping of names to values"},
        Bad{"max_workers: 2\n", "t.yaml:1: has no 'available_node_types'"},
        Bad{"max_workers: 2\navailable_node_types: [a]\n",
            "t.yaml:2: available_node_types: is not a mapping of names to values"},
        Bad{"max_workers: -1\navailable_node_types: {}\n",
            "t.yaml:1: max_workers: '-1' is not a whole number from 0 to 1000000"},
        Bad{"max_workers: 1.5\navailable_node_types: {}\n",
            "t.yaml:1: max_workers: '1.5' is not a whole number from 0 to 1000000"},
        Bad{"idle_timeout_minutes: soon\navailable_node_types: {}\n",
            "t.yaml:1: idle_timeout_minutes: 'soon' is not a decimal number from 0 to 1000000"},
        Bad{"max_workers: 1\nmax_workers: 2\navailable_node_types: {}\n",
            "t.yaml:2: max_workers: is given twice"},
        Bad{"available_node_types:\n  a:\n    resources: {CPU: 1}\n",
            "t.yaml:3: available_node_types.a: has no 'max_workers', and the file has none for all "
            "types"},
        Bad{"max_workers: 3\navailable_node_types:\n  a:\n    resources: {CPU: 1}\n    "
            "min_workers: 4\n",
            "t.yaml:4: available_node_types.a: min_workers 4 is above max_workers 3"},
        Bad{"max_workers: 3\navailable_node_types:\n  a:\n    resources:\n      CPU: lots\n",
            "t.yaml:5: available_node_types.a.resources.CPU: 'lots' is not a decimal number such "
            "as "
            "2 or 0.5"},
        Bad{"max_workers: 3\navailable_node_types:\n  a:\n    resources:\n      GPU: 99999\n",
            "t.yaml:5: available_node_types.a.resources.GPU: is above the limit of 4096 numbered "
            "instances"},
        Bad{"max_workers: 3\navailable_node_types:\n  a:\n    resorces: {CPU: 1}\n",
            "t.yaml:4: available_node_types.a.resorces: is unknown; give one of "
            "accelerator_type, gpu_context_memory, gpu_memory, labels, max_workers, min_workers, "
            "node_config, price, resources, setup_commands"},
        Bad{"max_workers: 3\navailable_node_types:\n  a: {min_workers: 1}\n",
            "t.yaml:3: available_node_types.a: has no 'resources'"},
        Bad{"max_workers: 3\navailable_node_types:\n  a b:\n    resources: {CPU: 1}\n",
            "t.yaml:4: available_node_types.a b: the name of a type is the value of a label: up to "
            "63 of A-Z, a-z, 0-9, _ . -"},
        Bad{"max_workers: 3\navailable_node_types:\n  a:\n    resources: {CPU: 1}\n    labels: "
            "{zone: [1]}\n",
            "t.yaml:5: available_node_types.a.labels.zone: is not a single value"},
        Bad{"max_workers: 3\nrequest_resources: [{}]\navailable_node_types: {}\n",
            "t.yaml:2: request_resources: requests no resource"},
        Bad{"max_workers: {\n", "t.yaml:2: end of map flow not found"}));

TEST(NodeTypes, ReportsMissingFile) {
  const auto read = read_node_types("/nowhere/types.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace mobula::internal::fleet
