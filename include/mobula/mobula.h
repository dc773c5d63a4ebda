// The public interface of Mobula, except MSGPACK_DEFINE types (msgpack.h), `co_await`
// (coroutine.h), services (service.h), functions of other programs (function.h), untyped calls
// (dynamic.h), actor_pool.h, queue.h, map_batches.h, Tune (tune.h), and transport plugins.
// Thread: see each header.
#pragma once

#include <mobula/accelerators.h>
#include <mobula/actor.h>
#include <mobula/as_completed.h>
#include <mobula/cluster.h>
#include <mobula/collective.h>
#include <mobula/context.h>
#include <mobula/deferred.h>
#include <mobula/device.h>
#include <mobula/dtype.h>
#include <mobula/errors.h>
#include <mobula/exceptions.h>
#if !defined(__CUDACC__)  // nvcc does not compile coroutines everywhere
#include <mobula/generator.h>
#endif
#include <mobula/get.h>
#include <mobula/interrupt.h>
#include <mobula/node.h>
#include <mobula/object_ref.h>
#include <mobula/object_ref_stream.h>
#include <mobula/on_ready.h>
#include <mobula/options.h>
#include <mobula/placement_group.h>
#include <mobula/result.h>
#include <mobula/retry_exceptions.h>
#include <mobula/serialize.h>
#include <mobula/task.h>
#include <mobula/tensor.h>
#include <mobula/transfer.h>
#include <mobula/view.h>
