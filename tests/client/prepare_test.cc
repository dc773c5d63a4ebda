#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <mobula/mobula.h>

namespace {

using mobula::ActorOptions;
using mobula::CallOptions;
using mobula::InitOptions;
using mobula::TaskOptions;
using mobula::detail::LabelRule;
using mobula::detail::prepare;
using Operator = LabelRule::Operator;

template <class Options>
void expect_refused(const Options& options, const std::string& field) {
  const auto prepared = prepare(options);
  ASSERT_FALSE(prepared.ok()) << field;
  EXPECT_EQ(prepared.error().kind, mobula::detail::ErrorKind::invalid_request);
  EXPECT_EQ(prepared.error().field, field);
  EXPECT_FALSE(prepared.error().rule.empty());
  EXPECT_NE(prepared.error().message.find(field), std::string::npos);
}

void expect_refused(const InitOptions& options, bool joins, const std::string& field) {
  const auto prepared = prepare(options, joins);
  ASSERT_FALSE(prepared.ok()) << field;
  EXPECT_EQ(prepared.error().field, field);
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(BadRequests, RejectsInvalidAmounts) {
  expect_refused(TaskOptions{.num_gpus = 1.5}, "num_gpus");
  expect_refused(TaskOptions{.num_gpus = 0.12345}, "num_gpus");
  expect_refused(TaskOptions{.num_gpus = nan}, "num_gpus");
  expect_refused(TaskOptions{.num_gpus = -1}, "num_gpus");
  expect_refused(TaskOptions{.num_cpus = infinite}, "num_cpus");
  expect_refused(TaskOptions{.num_cpus = -0.5}, "num_cpus");
  expect_refused(TaskOptions{.gpu_memory = -1}, "gpu_memory");
  expect_refused(TaskOptions{.memory = -1}, "memory");
  expect_refused(TaskOptions{.resources = {{"x", nan}}}, "resources.x");
  expect_refused(TaskOptions{.resources = {{"x", 0.00001}}}, "resources.x");
  expect_refused(ActorOptions{.num_cpus = nan}, "num_cpus");
  expect_refused(ActorOptions{.num_gpus = 2.5}, "num_gpus");
}

TEST(BadRequests, RejectsTermsOutOfRange) {
  expect_refused(TaskOptions{.priority = 1001}, "priority");
  expect_refused(TaskOptions{.priority = -1001}, "priority");
  expect_refused(ActorOptions{.priority = 1001}, "priority");
  expect_refused(InitOptions{.job_priority = -1001}, true, "job_priority");
  expect_refused(InitOptions{.job_weight = 0}, true, "job_weight");
  expect_refused(InitOptions{.job_weight = 10'001}, true, "job_weight");
  expect_refused(InitOptions{.job_quota = {{"GPU", -1}}}, true, "job_quota.GPU");
  expect_refused(InitOptions{.job_quota = {{"", 1}}}, true, "job_quota");
  expect_refused(InitOptions{.job_quota = {{"GPU", 1}, {"gpu", 2}}}, true, "job_quota");
}

TEST(PreparedJobs, ConvertsTermsToUnits) {
  const auto job =
      mobula::detail::prepare_job({.job_priority = -1000,
                                   .job_weight = 3,
                                   .job_quota = {{"cpu", 0}, {"GPU", 2.5}, {"shuttle", 1}}});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job.value().priority, -1000);
  EXPECT_EQ(job.value().weight, 3);
  const std::map<std::string, std::int64_t> quota{{"CPU", 0}, {"GPU", 25'000}, {"shuttle", 10'000}};
  EXPECT_EQ(job.value().quota_units, quota);
  EXPECT_EQ(prepare(TaskOptions{.priority = 5}).value()->resources.priority, 5);
  EXPECT_EQ(prepare(ActorOptions{.priority = -5}).value()->resources.priority, -5);
}

TEST(BadRequests, RejectsResourcesWithOwnField) {
  for (const char* name : {"CPU", "cpu", "Cpu"}) {
    expect_refused(TaskOptions{.resources = {{name, 1}}}, "resources");
  }
  expect_refused(TaskOptions{.resources = {{"memory", 1}}}, "resources");
  expect_refused(TaskOptions{.resources = {{"", 1}}}, "resources");
  mobula::Resources many;
  for (int i = 0; i < 64; ++i) many["r" + std::to_string(i)] = 1;
  EXPECT_TRUE(prepare(TaskOptions{.resources = many}).ok());
  many["one more"] = 1;
  expect_refused(TaskOptions{.resources = many}, "resources");
  expect_refused(ActorOptions{.resources = many}, "resources");
  expect_refused(InitOptions{.resources = many}, false, "resources");
  expect_refused(TaskOptions{.num_gpus = 1, .resources = {{"gpu", 0.5}}}, "num_gpus");
  expect_refused(TaskOptions{.resources = {{"gpu", 0.5}, {"GPU", 0.5}}}, "resources");
  expect_refused(TaskOptions{.resources = {{"GPU", 1.5}}}, "resources.GPU");
}

TEST(BadRequests, RejectsInvalidAccelerators) {
  expect_refused(TaskOptions{.num_gpus = 1, .resources = {{"neuron_cores", 1}}}, "num_gpus");
  expect_refused(TaskOptions{.gpu_memory = 1, .resources = {{"neuron_cores", 1}}}, "num_gpus");
  expect_refused(TaskOptions{.resources = {{"neuron_cores", 0.5}}}, "resources.neuron_cores");
  expect_refused(TaskOptions{.resources = {{"NPU", 1.5}}}, "resources.NPU");
  expect_refused(
      TaskOptions{.resources = {{"accelerator_type:A100", 0.001}}, .accelerator_type = "H100"},
      "accelerator_type");
  for (const char* whole : {"neuron_cores", "TPU", "HPU", "RBLN", "FURIOSA", "TTNPU", "MBLT"}) {
    expect_refused(TaskOptions{.resources = {{whole, 0.5}}}, std::string("resources.") + whole);
    EXPECT_TRUE(prepare(TaskOptions{.resources = {{whole, 2}}}).ok()) << whole;
  }
  for (const char* shared : {"GPU", "gpu", "NPU"}) {
    EXPECT_TRUE(prepare(TaskOptions{.resources = {{shared, 0.5}}}).ok()) << shared;
    expect_refused(TaskOptions{.resources = {{shared, 1.5}}}, std::string("resources.") + shared);
  }
  // Chips of a host are allocated in these numbers; a node may have any number.
  for (const int chips : {1, 2, 4, 8}) {
    EXPECT_TRUE(prepare(TaskOptions{.resources = {{"TPU", chips}}}).ok()) << chips;
  }
  expect_refused(TaskOptions{.resources = {{"TPU", 3}}}, "resources.TPU");
  EXPECT_TRUE(prepare(InitOptions{.resources = {{"TPU", 3}}}, false).ok());
  for (const char* variable :
       {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
        "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "NEURON_RT_VISIBLE_CORES",
        "TPU_VISIBLE_CHIPS", "HABANA_VISIBLE_MODULES", "ASCEND_RT_VISIBLE_DEVICES", "RBLN_DEVICES",
        "FURIOSA_DEVICES", "TT_VISIBLE_DEVICES", "MBLT_DEVICES", "QBRUNTIME_VISIBLE_DEVICES",
        "SUPA_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES"}) {
    expect_refused(TaskOptions{.env = {{variable, "0"}}}, "env");
    expect_refused(ActorOptions{.env = {{variable, ""}}}, "env");
    expect_refused(InitOptions{.env = {{variable, ""}}}, false, "env");
  }
  expect_refused(TaskOptions{.env = {{"", "0"}}}, "env");
  expect_refused(TaskOptions{.env = {{"A=B", "0"}}}, "env");
  expect_refused(TaskOptions{.env = {{"LARGE", std::string(1u << 20, 'x')}}}, "env");
  mobula::Environment many;
  for (int i = 0; i < 600; ++i) many["V" + std::to_string(i)] = std::string(1000, 'x');
  expect_refused(ActorOptions{.env = many}, "env");
}

// Every type with a constant in Ray, under both names if they differ.
TEST(AcceleratorTypes, MatchesNamesOfRay) {
  namespace types = mobula::accelerators;
  const std::pair<const char*, const char*> rows[] = {
      {types::NVIDIA_TESLA_V100, "V100"},
      {types::NVIDIA_TESLA_P100, "P100"},
      {types::NVIDIA_TESLA_T4, "T4"},
      {types::NVIDIA_TESLA_P4, "P4"},
      {types::NVIDIA_TESLA_K80, "K80"},
      {types::NVIDIA_TESLA_A10G, "A10G"},
      {types::NVIDIA_L4, "L4"},
      {types::NVIDIA_L40S, "L40S"},
      {types::NVIDIA_A100, "A100"},
      {types::NVIDIA_H100, "H100"},
      {types::NVIDIA_H200, "H200"},
      {types::NVIDIA_H20, "H20"},
      {types::NVIDIA_B200, "B200"},
      {types::NVIDIA_A100_40G, "A100-40G"},
      {types::NVIDIA_A100_80G, "A100-80G"},
      {types::INTEL_GPU_MAX_1550, "Intel-GPU-Max-1550"},
      {types::INTEL_MAX_1550, "Intel-GPU-Max-1550"},
      {types::INTEL_GPU_MAX_1100, "Intel-GPU-Max-1100"},
      {types::INTEL_MAX_1100, "Intel-GPU-Max-1100"},
      {types::INTEL_GAUDI, "Intel-GAUDI"},
      {types::AMD_INSTINCT_MI100, "AMD-Instinct-MI100"},
      {types::AMD_INSTINCT_MI250X, "AMD-Instinct-MI250X"},
      {types::AMD_INSTINCT_MI250x, "AMD-Instinct-MI250X"},
      {types::AMD_INSTINCT_MI250X_MI250, "AMD-Instinct-MI250X-MI250"},
      {types::AMD_INSTINCT_MI250, "AMD-Instinct-MI250X-MI250"},
      {types::AMD_INSTINCT_MI210, "AMD-Instinct-MI210"},
      {types::AMD_INSTINCT_MI300A, "AMD-Instinct-MI300A"},
      {types::AMD_INSTINCT_MI300X_OAM, "AMD-Instinct-MI300X-OAM"},
      {types::AMD_INSTINCT_MI300x, "AMD-Instinct-MI300X-OAM"},
      {types::AMD_INSTINCT_MI300X_HF, "AMD-Instinct-MI300X-HF"},
      {types::AMD_INSTINCT_MI300x_HF, "AMD-Instinct-MI300X-HF"},
      {types::AMD_INSTINCT_MI308X, "AMD-Instinct-MI308X"},
      {types::AMD_INSTINCT_MI308x, "AMD-Instinct-MI308X"},
      {types::AMD_INSTINCT_MI325X_OAM, "AMD-Instinct-MI325X-OAM"},
      {types::AMD_INSTINCT_MI325x, "AMD-Instinct-MI325X-OAM"},
      {types::AMD_RADEON_R9_200_HD_7900, "AMD-Radeon-R9-200-HD-7900"},
      {types::AMD_RADEON_HD_7900, "AMD-Radeon-HD-7900"},
      {types::AWS_NEURON_CORE, "aws-neuron-core"},
      {types::GOOGLE_TPU_V2, "TPU-V2"},
      {types::GOOGLE_TPU_V3, "TPU-V3"},
      {types::GOOGLE_TPU_V4, "TPU-V4"},
      {types::GOOGLE_TPU_V5P, "TPU-V5P"},
      {types::GOOGLE_TPU_V5LITEPOD, "TPU-V5LITEPOD"},
      {types::GOOGLE_TPU_V6E, "TPU-V6E"},
      {types::HUAWEI_NPU_910B, "Ascend910B"},
      {types::HUAWEI_NPU_910B4, "Ascend910B4"}};
  for (const auto& [constant, name] : rows) {
    EXPECT_STREQ(constant, name);
    const auto prepared = prepare(TaskOptions{.num_gpus = 1, .accelerator_type = constant});
    ASSERT_TRUE(prepared.ok()) << name;
    EXPECT_EQ(prepared.value()->resources.accelerator_type, name);
  }
}

TEST(BadRequests, RejectsInvalidCounts) {
  expect_refused(TaskOptions{.max_retries = -2}, "max_retries");
  expect_refused(TaskOptions{.max_calls = -2}, "max_calls");
  expect_refused(TaskOptions{.num_returns = 0}, "num_returns");
  expect_refused(ActorOptions{.max_restarts = -2}, "max_restarts");
  expect_refused(ActorOptions{.max_task_retries = -2}, "max_task_retries");
  expect_refused(ActorOptions{.max_concurrency = 0}, "max_concurrency");
  expect_refused(ActorOptions{.max_pending_calls = -2}, "max_pending_calls");
  expect_refused(ActorOptions{.get_if_exists = true}, "get_if_exists");
  expect_refused(CallOptions{.max_task_retries = -2}, "max_task_retries");
  expect_refused(CallOptions{.num_returns = -1}, "num_returns");
}

TEST(BadRequests, RejectsInvalidNames) {
  expect_refused(TaskOptions{.name = std::string(257, 'a')}, "name");
  expect_refused(TaskOptions{.name = "a\nb"}, "name");
  expect_refused(TaskOptions{.name = "a\x7f"}, "name");
  expect_refused(TaskOptions{.name = "\xc2\x85"}, "name");
  expect_refused(TaskOptions{.name = "cod\xe2\x80\xaeslx.exe"}, "name");  // U+202E
  expect_refused(TaskOptions{.name = "\xe2\x81\xa6"
                                     "a"},
                 "name");  // U+2066
  expect_refused(TaskOptions{.name = "\xff"}, "name");
  expect_refused(TaskOptions{.name = "\xc0\x80"}, "name");
  expect_refused(TaskOptions{.name = "\xed\xa0\x80"}, "name");
  expect_refused(TaskOptions{.name = "\xe2\x82"}, "name");
  expect_refused(ActorOptions{.name_space = "\t"}, "name_space");
  EXPECT_TRUE(prepare(TaskOptions{.name = std::string(256, 'a')}).ok());
  EXPECT_TRUE(prepare(TaskOptions{.name = "Größe €𝄞"}).ok());
}

TEST(BadRequests, RejectsExcessiveBytes) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_refused(TaskOptions{.gpu_memory = most}, "gpu_memory");
  expect_refused(TaskOptions{.memory = most}, "memory");
  expect_refused(InitOptions{.memory = most}, false, "memory");
}

TEST(BadRequests, RejectsInvalidLabelsAndPlacements) {
  expect_refused(TaskOptions{.label_selector = {{"", "v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"-a", "v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"Upper.Case/a", "v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"/a", "v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a/b/c", "v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{std::string(64, 'a'), "v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a", "v v"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a", "in()"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a", "in(x"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a", "in(x,,y)"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a", "!!x"}}}, "label_selector");
  expect_refused(TaskOptions{.label_selector = {{"a", "!"}}}, "label_selector");
  expect_refused(InitOptions{.labels = {{"a", "!x"}}}, false, "labels");
  expect_refused(TaskOptions{.scheduling = mobula::NodeAffinity{}}, "scheduling");
  expect_refused(TaskOptions{.scheduling = mobula::NodeAffinity{"node-1"}}, "scheduling");
  expect_refused(TaskOptions{.scheduling = mobula::NodeAffinity{"node-1", true}}, "scheduling");
  expect_refused(TaskOptions{.placement = mobula::Placement{.bundle_index = 1}}, "placement");
  expect_refused(TaskOptions{.placement = mobula::Placement{.bundle_index = -2}},
                 "placement.bundle_index");
  EXPECT_TRUE(prepare(TaskOptions{.placement = mobula::Placement{}}).ok());
}

TEST(PlacementOptions, RequiresExistingSufficientBundle) {
  const mobula::PlacementGroup group({1, 2}, {{{"CPU", 1}}, {{"CPU", 2}, {"GPU", 1}}},
                                     mobula::Strategy::pack);
  const auto there = [&](int bundle) { return mobula::Placement{group, bundle}; };
  EXPECT_TRUE(prepare(TaskOptions{.num_gpus = 1, .placement = there(-1)}).ok());
  EXPECT_TRUE(prepare(ActorOptions{.placement = there(0)}).ok());
  expect_refused(TaskOptions{.placement = there(2)}, "placement.bundle_index");
  expect_refused(TaskOptions{.placement = there(-2)}, "placement.bundle_index");
  expect_refused(TaskOptions{.num_gpus = 1, .placement = there(0)}, "placement");
  expect_refused(TaskOptions{.num_cpus = 3, .placement = there(-1)}, "placement");
  expect_refused(ActorOptions{.num_gpus = 2, .placement = there(-1)}, "placement");
  expect_refused(TaskOptions{.resources = {{"ssd", 1}}, .placement = there(-1)}, "placement");
}

TEST(TransportOptions, RejectsUnknownTransports) {
  for (int each = 0; each <= static_cast<int>(mobula::Transport::nixl); ++each) {
    const auto transport = static_cast<mobula::Transport>(each);
    EXPECT_TRUE(prepare(TaskOptions{.tensor_transport = transport, .allow_fallback = true}).ok());
    EXPECT_NO_THROW(mobula::detail::put_request({.tensor_transport = transport}));
    EXPECT_NO_THROW(mobula::detail::get_request({.tensor_transport = transport}));
  }
  expect_refused(CallOptions{.tensor_transport = static_cast<mobula::Transport>(77)},
                 "tensor_transport");
  EXPECT_NO_THROW(mobula::detail::get_request({.device = mobula::Device{}}));
  EXPECT_NO_THROW(mobula::detail::get_request({.device = mobula::Device{mobula::Device::cuda, 1}}));
  EXPECT_THROW(mobula::detail::get_request({.device = mobula::Device{mobula::Device::cuda, -1}}),
               mobula::InvalidRequestError);
}

TEST(BadRequests, RejectsInvalidInitOptions) {
  expect_refused(InitOptions{.num_cpus = 1}, true, "num_cpus");
  expect_refused(InitOptions{.resources = {{"x", 1}}}, true, "resources");
  expect_refused(InitOptions{.object_store_memory = 1}, true, "object_store_memory");
  expect_refused(InitOptions{.num_gpus = -1}, false, "num_gpus");
  expect_refused(InitOptions{.memory = -1}, false, "memory");
  expect_refused(InitOptions{.log_level = "loud"}, false, "log_level");
  expect_refused(InitOptions{.max_pending_bytes = -1}, false, "max_pending_bytes");
  EXPECT_TRUE(prepare(InitOptions{.labels = {{"zone", "eu"}}, .job_name = "j"}, true).ok());
  const auto node = prepare(InitOptions{.num_cpus = 2, .resources = {{"GPU", 1}}}, false);
  EXPECT_EQ(node.value().cpu_units, 20'000);
  EXPECT_EQ(node.value().gpu_units, 10'000);
}

TEST(Requests, ConvertsAmountsExactly) {
  const auto request =
      prepare(
          TaskOptions{.num_cpus = 0.1 + 0.2, .num_gpus = 0.57, .resources = {{"b", 2}, {"a", 0}}})
          .take();
  EXPECT_EQ(request->resources.cpu_units, 3'000);
  EXPECT_EQ(request->resources.gpu_units, 5'700);
  ASSERT_EQ(request->resources.custom_units.size(), 1u);
  EXPECT_EQ(request->resources.custom_units[0].first, "b");
  const auto named =
      prepare(TaskOptions{.resources = {{"gPu", 0.5}, {"accelerator_type:H200", 0.001}}}).take();
  EXPECT_EQ(named->resources.gpu_units, 5'000);
  EXPECT_EQ(named->resources.accelerator_type, "H200");
}

TEST(Requests, LimitsCallsOfDeviceProcesses) {
  EXPECT_EQ(prepare(TaskOptions{}).value()->max_calls, 0);
  EXPECT_EQ(prepare(TaskOptions{.num_gpus = 0.5}).value()->max_calls, 1);
  EXPECT_EQ(prepare(TaskOptions{.gpu_memory = 1}).value()->max_calls, 1);
  EXPECT_EQ(prepare(TaskOptions{.resources = {{"TPU", 4}}}).value()->max_calls, 1);
  EXPECT_EQ(prepare(TaskOptions{.num_gpus = 1, .max_calls = 0}).value()->max_calls, 0);
  EXPECT_EQ(prepare(TaskOptions{.num_gpus = 1, .max_calls = 5}).value()->max_calls, 5);
}

TEST(Requests, DistinguishesActorCpusForPlacement) {
  const auto cpus = [](const ActorOptions& options) {
    const auto request = prepare(options).take();
    return std::pair(request->resources.cpu_units, request->resources.placing_cpu_units);
  };
  EXPECT_EQ(cpus({}), std::pair(std::int64_t{0}, std::int64_t{10'000}));
  EXPECT_EQ(cpus({.memory = 1}), std::pair(std::int64_t{0}, std::int64_t{10'000}));
  EXPECT_EQ(cpus({.num_gpus = 1}), std::pair(std::int64_t{10'000}, std::int64_t{0}));
  EXPECT_EQ(cpus({.resources = {{"x", 1}}}), std::pair(std::int64_t{10'000}, std::int64_t{0}));
  EXPECT_EQ(cpus({.num_cpus = 0, .num_gpus = 1}), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(cpus({.num_cpus = 2}), std::pair(std::int64_t{20'000}, std::int64_t{0}));
}

TEST(Requests, ParsesSelectors) {
  const auto rules = prepare(TaskOptions{.label_selector = {{"a", "v"},
                                                            {"b", "!v"},
                                                            {"c", "in(x, y)"},
                                                            {"d.io/e", "!in(x)"},
                                                            {"f", ""}}})
                         .take()
                         ->resources.labels;
  ASSERT_EQ(rules.size(), 5u);
  EXPECT_EQ(rules[0], (LabelRule{"a", Operator::equals, {"v"}}));
  EXPECT_EQ(rules[1], (LabelRule{"b", Operator::not_equals, {"v"}}));
  EXPECT_EQ(rules[2], (LabelRule{"c", Operator::in, {"x", "y"}}));
  EXPECT_EQ(rules[3], (LabelRule{"d.io/e", Operator::not_in, {"x"}}));
  EXPECT_EQ(rules[4], (LabelRule{"f", Operator::equals, {""}}));
}

TEST(Requests, ParsesFallbackSelectors) {
  const auto fallbacks =
      prepare(TaskOptions{.label_selector = {{"a", "v"}},
                          .fallback_selectors = {{{"a", "w"}, {"b", "!in(x)"}}, {}}})
          .take()
          ->resources.fallback_labels;
  ASSERT_EQ(fallbacks.size(), 2u);
  ASSERT_EQ(fallbacks[0].size(), 2u);
  EXPECT_EQ(fallbacks[0][0], (LabelRule{"a", Operator::equals, {"w"}}));
  EXPECT_EQ(fallbacks[0][1], (LabelRule{"b", Operator::not_in, {"x"}}));
  EXPECT_TRUE(fallbacks[1].empty()) << "any node";
  expect_refused(TaskOptions{.fallback_selectors = {{}, {{"a", "in("}}}}, "fallback_selectors[1]");
  expect_refused(TaskOptions{.fallback_selectors = {{{"-a", "v"}}}}, "fallback_selectors[0]");
  expect_refused(TaskOptions{.fallback_selectors = std::vector<mobula::Labels>(17)},
                 "fallback_selectors");
}

TEST(Requests, ConvertsTimeouts) {
  using namespace std::chrono_literals;
  using mobula::detail::deadline_after;
  EXPECT_FALSE(deadline_after(std::nullopt));
  EXPECT_TRUE(deadline_after(mobula::Duration(5ms)));
  EXPECT_FALSE(deadline_after(mobula::Duration(infinite)));
  EXPECT_THROW(deadline_after(mobula::Duration(nan)), mobula::InvalidRequestError);
}

// With -Wextra as an error: every member of an options struct has an initializer.
TEST(Requests, AcceptsDesignatedInitializers) {
  const int gpus = 1;
  const TaskOptions task{.num_gpus = gpus, .scheduling = mobula::Spread{}};
  const ActorOptions actor{.lifetime = mobula::Lifetime::detached, .num_cpus = 2};
  const mobula::GetOptions get{.device = mobula::Device{mobula::Device::cuda, 1}};
  const mobula::PutOptions put{.tensor_transport = mobula::Transport::nccl};
  const InitOptions init{.num_cpus = 4, .name_space = "n"};
  EXPECT_TRUE(prepare(task).ok());
  EXPECT_TRUE(prepare(actor).value()->detached);
  EXPECT_EQ(get.device->index, 1);
  EXPECT_EQ(put.tensor_transport, mobula::Transport::nccl);
  EXPECT_EQ(init.max_pending_bytes, std::int64_t{1} << 30);
}

}  // namespace
