// Tensors of a process, and the engine's lock.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "client/engine/fixture.h"
#include "tensor/storage.h"

namespace mobula::internal::client {
namespace {

using namespace std::chrono_literals;

using EngineTensors = Engine;

// The release of a program's memory is user code, which may call the library: the loop drops the
// shares of the engine, although other shares exist during the step.
TEST_F(EngineTensors, ReleasesMemoryWithoutLock) {
  start();
  auto& tensors = runtime_.lock()->tensors();
  for (const bool is_kept : {true, false}) {
    std::vector<std::byte> bytes(64);
    std::promise<void> released;
    std::shared_ptr<const void> owner(bytes.data(), [&](const void*) {
      const auto held = engine_->lock();
      released.set_value();
    });
    auto storage = std::make_shared<detail::TensorStorage>(bytes.data(), bytes.size(), Device(),
                                                           std::move(owner));
    ObjectId object;
    {
      const auto held = engine_->lock();
      const detail::IncludedTensor included{storage, {0, 64}};
      const Result<RefRecord> ref =
          is_kept
              ? tensors.keep(
                    {.storage = storage, .shape = {64}, .strides = {1}, .dtype = DType::uint8}, {})
              : tensors.freeze({&included, 1}, {});
      ASSERT_TRUE(ref) << ref.error().text;
      object = ref->object;
    }
    std::promise<void> busy, go_on;
    ASSERT_TRUE(engine_->loop()
                    .post([&busy, until = go_on.get_future().share()] {
                      busy.set_value();
                      until.wait();  // outlives the variables of this test
                    })
                    .ok());
    busy.get_future().wait();
    {
      const auto held = engine_->lock();
      engine_->step(ReleaseRef{object});
    }
    EXPECT_GT(storage.use_count(), 1) << is_kept;
    storage.reset();
    go_on.set_value();
    EXPECT_EQ(released.get_future().wait_for(20s), std::future_status::ready) << is_kept;
  }
}

}  // namespace
}  // namespace mobula::internal::client
