// The binding. A tensor arrives as (data_ptr, stride, stride, ...) or None; what is checked about
// it is checked in Python, where the error can name it.
#include <nanobind/nanobind.h>

#include "core.h"

namespace nb = nanobind;
using namespace subquad;

namespace {

const Table* in_use = nullptr;

View view(nb::handle tensor) {
  View x;
  if (tensor.is_none()) return x;
  nb::tuple parts = nb::borrow<nb::tuple>(tensor);
  x.p = reinterpret_cast<char*>(nb::cast<uintptr_t>(parts[0]));
  for (size_t i = 1; i < parts.size(); ++i) x.s[i - 1] = nb::cast<int64_t>(parts[i]);
  return x;
}

// sizes: b, h, t, k, m, dtype, map, threads.
Linear problem(nb::tuple sizes) {
  const auto n = [&](int i) { return nb::cast<int64_t>(sizes[i]); };
  Linear p{};
  p.b = n(0), p.h = n(1), p.t = n(2), p.k = n(3), p.m = n(4);
  p.dtype = Dtype(n(5)), p.map = Map(n(6)), p.threads = int(n(7));
  return p;
}

void forward(void (*kernel)(const Linear&, Parallel), nb::tuple sizes, nb::tuple given,
             nb::tuple made) {
  Linear p = problem(sizes);
  View* inputs[] = {&p.q, &p.key, &p.v, &p.mask, &p.s0, &p.z0, &p.decay};
  View* outputs[] = {&p.out, &p.s, &p.z};
  for (size_t i = 0; i < given.size(); ++i) *inputs[i] = view(given[i]);
  for (size_t i = 0; i < made.size(); ++i) *outputs[i] = view(made[i]);
  nb::gil_scoped_release release;
  kernel(p, parallel);
}

void backward(void (*kernel)(const Linear&, Parallel), nb::tuple sizes, nb::tuple gradients,
              nb::tuple given, nb::tuple made) {
  Linear p = problem(sizes);
  View* upper[] = {&p.dout, &p.ds, &p.dz};
  View* inputs[] = {&p.q, &p.key, &p.v, &p.mask, &p.s0, &p.z0, &p.decay};
  View* outputs[] = {&p.dq, &p.dk, &p.dv, &p.ds0, &p.dz0, &p.ddecay};
  for (size_t i = 0; i < gradients.size(); ++i) *upper[i] = view(gradients[i]);
  for (size_t i = 0; i < given.size(); ++i) *inputs[i] = view(given[i]);
  for (size_t i = 0; i < made.size(); ++i) *outputs[i] = view(made[i]);
  nb::gil_scoped_release release;
  kernel(p, parallel);
}

// sizes: b, read, made, d, taps, dtype, threads.
void lagged(void (*kernel)(const Lagged&, Parallel), nb::tuple sizes, uintptr_t offsets,
            uintptr_t weight, uintptr_t dweight, nb::tuple x, nb::tuple out) {
  const auto n = [&](int i) { return nb::cast<int64_t>(sizes[i]); };
  const Lagged p{n(0),
                 n(1),
                 n(2),
                 n(3),
                 n(4),
                 Dtype(n(5)),
                 int(n(6)),
                 view(x),
                 view(out),
                 reinterpret_cast<const int64_t*>(offsets),
                 reinterpret_cast<const char*>(weight),
                 reinterpret_cast<char*>(dweight)};
  nb::gil_scoped_release release;
  kernel(p, parallel);
}

// sizes: b, t, d, h, dtype, threads. views: x, mask, weight, y, log_sum, and for the backward dy, dx,
// dweight.
void pool(void (*kernel)(const Pool&, Parallel), nb::tuple sizes, nb::tuple views) {
  const auto n = [&](int i) { return nb::cast<int64_t>(sizes[i]); };
  Pool p{};
  p.b = n(0), p.t = n(1), p.d = n(2), p.h = n(3);
  p.dtype = Dtype(n(4)), p.threads = int(n(5));
  View* all[] = {&p.x, &p.mask, &p.weight, &p.y, &p.log_sum, &p.dy, &p.dx, &p.dweight};
  for (size_t i = 0; i < views.size(); ++i) *all[i] = view(views[i]);
  nb::gil_scoped_release release;
  kernel(p, parallel);
}

}  // namespace

void bind_engine(nb::module_& m);  // engine_module.cpp

NB_MODULE(_native, m) {
  in_use = choose();
  bind_engine(m);
  m.def("isa", [] { return in_use->name; });
  m.def("team", [] { return team(); });
  m.def("use_large_pages", [](uintptr_t p, int64_t bytes) {
    use_large_pages(reinterpret_cast<char*>(p), bytes);
  });
  m.def("use", [](const char* name) {
    const Table* table = choose(name);
    if (table) in_use = table, use_step(table);
    return table != nullptr;
  });
  m.def("gelu", [](uintptr_t dout, uintptr_t x, uintptr_t out, int64_t n, int dtype, int threads) {
    const Pointwise p{n,
                      Dtype(dtype),
                      threads,
                      reinterpret_cast<const char*>(dout),
                      reinterpret_cast<const char*>(x),
                      reinterpret_cast<char*>(out)};
    nb::gil_scoped_release release;
    in_use->gelu(p, parallel);
  });
  m.def("lagged", [](nb::tuple sizes, uintptr_t offsets, uintptr_t weight, nb::tuple x,
                     nb::tuple out) { lagged(in_use->lagged, sizes, offsets, weight, 0, x, out); });
  m.def("lagged_weight", [](nb::tuple sizes, uintptr_t offsets, uintptr_t dweight, nb::tuple x,
                            nb::tuple dout) {
    lagged(in_use->lagged_weight, sizes, offsets, 0, dweight, x, dout);
  });
  m.def("pool", [](nb::tuple sizes, nb::tuple views) { pool(in_use->pool, sizes, views); });
  m.def("pool_backward",
        [](nb::tuple sizes, nb::tuple views) { pool(in_use->pool_backward, sizes, views); });
  m.def("unfold", [](nb::tuple sizes, bool hartley, uintptr_t half, uintptr_t out) {
    const auto n = [&](int i) { return nb::cast<int64_t>(sizes[i]); };
    const Spectrum p{n(0),
                     n(1),
                     n(2),
                     Dtype(n(3)),
                     int(n(4)),
                     hartley,
                     reinterpret_cast<const char*>(half),
                     reinterpret_cast<char*>(out)};
    nb::gil_scoped_release release;
    in_use->unfold(p, parallel);
  });
  m.def("causal_forward", [](nb::tuple sizes, nb::tuple given, nb::tuple made) {
    forward(in_use->causal_forward, sizes, given, made);
  });
  m.def("causal_backward", [](nb::tuple sizes, nb::tuple up, nb::tuple given, nb::tuple made) {
    backward(in_use->causal_backward, sizes, up, given, made);
  });
  m.def("bidirectional_forward", [](nb::tuple sizes, nb::tuple given, nb::tuple made) {
    forward(in_use->bidirectional_forward, sizes, given, made);
  });
  m.def("bidirectional_backward",
        [](nb::tuple sizes, nb::tuple up, nb::tuple given, nb::tuple made) {
          backward(in_use->bidirectional_backward, sizes, up, given, made);
        });
}
