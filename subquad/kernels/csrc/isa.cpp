// Compiled once per instruction set (see CMakeLists.txt): the kernels' table.
#include "activation.h"
#include "additive.h"
#include "bidirectional.h"
#include "lagged.h"
#include "spectrum.h"
#include "step.h"

#define SUBQUAD_STRING_(x) #x
#define SUBQUAD_STRING(x) SUBQUAD_STRING_(x)

namespace subquad::SUBQUAD_ISA {

// Runs `kernel<E>` for the problem's dtype.
#define SUBQUAD_BY_DTYPE(Problem, kernel)                           \
  [](const Problem& p, Parallel run) {                              \
    switch (p.dtype) {                                              \
      case Dtype::f32: return kernel<float>(p, run);                \
      case Dtype::f64: return kernel<double>(p, run);               \
      case Dtype::bf16: return kernel<BFloat16>(p, run);            \
      case Dtype::f16: return kernel<Float16>(p, run);              \
    }                                                               \
  }

extern const Table table;
const Table table = {
    SUBQUAD_STRING(SUBQUAD_ISA),
    SUBQUAD_BY_DTYPE(Linear, causal_forward),
    SUBQUAD_BY_DTYPE(Linear, causal_backward),
    SUBQUAD_BY_DTYPE(Linear, bidirectional_forward),
    SUBQUAD_BY_DTYPE(Linear, bidirectional_backward),
    SUBQUAD_BY_DTYPE(Pointwise, gelu_rows),
    SUBQUAD_BY_DTYPE(Lagged, lagged),
    SUBQUAD_BY_DTYPE(Lagged, lagged_weight),
    SUBQUAD_BY_DTYPE(Pool, pool),
    SUBQUAD_BY_DTYPE(Pool, pool_backward),
    [](const Spectrum& p, Parallel run) {
      p.dtype == Dtype::f64 ? unfold<double>(p, run) : unfold<float>(p, run);
    },
    step,
};

}  // namespace subquad::SUBQUAD_ISA
