// Scenarios about tensors that go through the object store.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <sstream>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::DType;
using mobula::Tensor;

Tensor counted(const mobula::Extents& shape) {
  Tensor tensor = Tensor::empty(shape);
  float next = 0;
  for (float& each : tensor.mutable_view<float>()) each = next++;
  return tensor;
}

double sum_of_elements(const Tensor& tensor) {
  const Tensor packed = tensor.contiguous();
  const auto elements = packed.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

Tensor doubled(const Tensor& tensor) {
  Tensor result = tensor.clone();
  for (float& each : result.mutable_view<float>()) each *= 2;
  return result;
}

// The outcome of writing to an argument in a task.
std::string write_to_argument(Tensor tensor) {
  try {
    tensor.mutable_view<float>()[0] = 1;
  } catch (const mobula::TensorSharedError&) {
    return "refused";
  }
  return "written";
}

void write_to_argument_and_fail(Tensor tensor) { tensor.mutable_view<float>()[0] = 1; }

struct Batch {
  Tensor pixels;
  std::vector<std::int64_t> labels;
  std::optional<Tensor> mask;
  std::map<std::string, std::vector<Tensor>> layers;
};

Batch turned(Batch batch) {
  batch.pixels = batch.pixels.transpose(0, 1);
  batch.layers["more"] = {batch.pixels, Tensor::zeros({2, 0, 3}), Tensor::from({7.f}).reshape({})};
  batch.mask.reset();
  return batch;
}

std::tuple<Tensor, Tensor> halves(const Tensor& tensor) {
  return {counted({tensor.shape()[0] / 2}), tensor};
}

// An actor whose state is a tensor: first the argument as received, then its own tensor.
class Weights {
 public:
  explicit Weights(Tensor start) : value_(std::move(start)) {}
  bool may_write() {
    try {
      (void)value_.mutable_view<float>();
      return true;
    } catch (const mobula::TensorSharedError&) {
      return false;
    }
  }
  void add(const Tensor& step) {
    if (!may_write()) value_ = value_.clone();
    auto mine = value_.mutable_view<float>();
    const auto theirs = step.view<float>();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += theirs[i];
  }
  Tensor value() const { return value_; }

 private:
  Tensor value_;
};

// True if the address is in memory of the store.
bool is_in_store(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, end = 0;
    char dash = 0;
    std::istringstream fields(line);
    fields >> std::hex >> first >> dash >> end;
    if (first <= number && number < end) return line.find("memfd") != std::string::npos;
  }
  return false;
}

// For a large argument: whether it is in the store, and at the same address for every reader.
std::string mapping_of(const Tensor& tensor, std::vector<mobula::ObjectRef<Tensor>> again) {
  if (!is_in_store(tensor.data())) return "copied";
  if (reinterpret_cast<std::uintptr_t>(tensor.data()) % 64 != 0) return "not aligned";
  return mobula::get(again.at(0)).data() == tensor.data() ? "in place" : "twice";
}

int tensors(const Words&) {
  Report report;
  const Tensor small = counted({3, 4});
  report.equal("sum", mobula::get(mobula::task<sum_of_elements>.remote(small)), 66.0);
  const auto ref = mobula::put(small);
  report.equal("sum of the put value", mobula::get(mobula::task<sum_of_elements>.remote(ref)),
               66.0);
  report.equal(
      "sum of a result",
      mobula::get(mobula::task<sum_of_elements>.remote(mobula::task<doubled>.remote(small))),
      132.0);
  report.equal("sum of a transposed one",
               mobula::get(mobula::task<sum_of_elements>.remote(small.transpose(0, 1))), 66.0);
  report.equal("of nothing",
               mobula::get(mobula::task<sum_of_elements>.remote(Tensor::zeros({0, 9}))), 0.0);
  report.equal("explicitly by the store",
               mobula::get(mobula::task<sum_of_elements>  //
                               .options({.tensor_transport = mobula::Transport::object_store})
                               .remote(small)),
               66.0);

  const Batch sent{counted({200, 300}), {1, 2, 3}, counted({5}), {{"one", {small, small}}}};
  const Batch back = mobula::get(mobula::task<turned>.remote(sent));
  report.holds("a dense tensor keeps its strides",
               back.pixels.strides() == std::vector<std::int64_t>{1, 300});
  report.equal("sum of pixels", sum_of_elements(back.pixels), sum_of_elements(sent.pixels));
  report.holds("no mask", !back.mask);
  report.equal("layers", back.layers.at("more").size(), 3u);
  report.holds("no elements",
               back.layers.at("more")[1].shape() == std::vector<std::int64_t>{2, 0, 3});
  report.holds("no dimensions", back.layers.at("more")[2].shape().empty() &&
                                    sum_of_elements(back.layers.at("more")[2]) == 7);
  report.equal("sum of a layer", sum_of_elements(back.layers.at("one")[1]), 66.0);

  auto [first, second] = mobula::task<halves>.split().remote(counted({100}));
  report.equal("one part", sum_of_elements(mobula::get(first)), 1225.0);
  report.equal("other part", sum_of_elements(mobula::get(second)), 4950.0);
  const std::vector many(20, mobula::task<doubled>.remote(small));
  double sum = 0;
  for (const Tensor& each : mobula::get(many)) sum += sum_of_elements(each);
  report.equal("sum of many", sum, 20 * 132.0);
  return report.exit_code();
}

int tensors_are_frozen(const Words&) {
  Report report;
  for (const mobula::Extents& shape : {mobula::Extents{4}, mobula::Extents{100'000}}) {
    Tensor mine = counted(shape);
    report.equal("an argument", mobula::get(mobula::task<write_to_argument>.remote(mine)),
                 "refused");
    try {
      mobula::get(
          mobula::task<write_to_argument_and_fail>.options({.max_retries = 0}).remote(mine));
      report.fail("a task wrote to its argument");
    } catch (const mobula::TaskError& error) {
      report.holds("the error names its type",
                   error.remote_type().find("TensorSharedError") != std::string::npos);
    }
    mine.mutable_view<float>()[0] = 5;  // sent by value: the driver still owns it
    auto ref = mobula::put(mine);
    mine.mutable_view<float>()[0] = 6;
    Tensor got = mobula::get(ref);
    report.equal("what was put", got.view<float>()[0], 5.f);
    throws<mobula::TensorSharedError>(report, "writing to the result of get",
                                      [&] { (void)got.mutable_view<float>(); });
    got.clone().mutable_view<float>()[0] = 7;
  }
  return report.exit_code();
}

int tensors_in_actors(const Words&) {
  Report report;
  const Tensor start = counted({100'000});
  auto weights = mobula::actor<Weights>.remote(start);
  report.holds("the constructor argument is frozen",
               !mobula::get(weights.call<&Weights::may_write>()));
  for (int i = 0; i < 3; ++i) weights.call<&Weights::add>(start);
  report.holds("its clone is not", mobula::get(weights.call<&Weights::may_write>()));
  const Tensor value = mobula::get(weights.call<&Weights::value>());
  weights.call<&Weights::add>(start);
  report.equal("sum", sum_of_elements(mobula::get(weights.call<&Weights::value>())),
               5 * sum_of_elements(start));
  report.equal("sum of the earlier value", sum_of_elements(value), 4 * sum_of_elements(start));
  return report.exit_code();
}

// 64 MiB, read in place, pinned exactly while a view exists.
int tensors_in_place(const Words&) {
  Report report;
  constexpr std::int64_t elements = 16 << 20;
  std::optional<Tensor> kept;
  {
    const auto ref = mobula::put(counted({elements}));
    report.equal("in a task", mobula::get(mobula::task<mapping_of>.remote(ref, std::vector{ref})),
                 "in place");
    kept = mobula::get(ref).reshape({4, -1});
    report.holds("in the driver",
                 is_in_store(kept->data()) && mobula::get(ref).data() == kept->data());
  }
  // The store has space for four of them.
  for (int i = 0; i < 12; ++i) {
    const Tensor next = mobula::get(mobula::put(Tensor::zeros({elements})));
    report.equal("the last of zeros", next.view<float>().back(), 0.f);
  }
  report.equal("the last of those kept", kept->view<float>().back(),
               static_cast<float>(elements - 1));
  return report.exit_code();
}

void write_by_raw_pointer(const Tensor& tensor) {
  const_cast<float&>(tensor.view<float>()[70'000]) = 1;
}

// Objects are mapped read-only: a raw pointer cannot change them.
int tensors_are_protected(const Words&) {
  Report report;
  const auto ref = mobula::put(counted({100'000}));
  try {
    mobula::get(mobula::task<write_by_raw_pointer>.options({.max_retries = 0}).remote(ref));
    report.fail("a task wrote to an object");
  } catch (const mobula::WorkerCrashedError& error) {
    report.equal("signal", error.signal(), SIGSEGV);
  }
  report.equal("the element it tried to write", mobula::get(ref).view<float>()[70'000], 70'000.f);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> tensor_scenarios() {
  return {{"tensors", tensors},
          {"tensors_are_frozen", tensors_are_frozen},
          {"tensors_in_actors", tensors_in_actors},
          {"tensors_in_place", tensors_in_place},
          {"tensors_are_protected", tensors_are_protected}};
}

}  // namespace mobula::e2e
