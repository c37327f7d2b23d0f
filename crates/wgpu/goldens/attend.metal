// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size2;
    uint size3;
    uint size4;
    uint size5;
    uint size6;
};

struct Params {
    uint zero;
    uint flags;
    uint rows;
    uint inputs;
    uint first_row;
    uint in_stride;
    uint out_stride;
    uint other_stride;
    uint other_offset;
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint pairs;
    uint window;
    uint slots;
    uint ring;
    uint owns;
    uint block;
    uint count;
    uint kv_values;
    uint kv_key_scales;
    uint kv_value_scales;
    uint partials;
    float input_scale;
    float output_scale;
    float up_scale;
    float next_scale;
    float factor;
    float scalar;
    uint spare_a;
    uint spare_b;
    uint spare_c;
};
struct Column {
    uint token;
    uint position;
};
struct type_7 {
    metal::float4 inner[8];
};
struct type_8 {
    uint inner[7];
};
struct First {
    uint column;
    uint spare_a;
    uint spare_b;
    uint spare_c;
};
typedef Column type_10[1];
typedef metal::float4 type_11[1];
typedef metal::float2 type_12[1];
typedef metal::uint4 type_13[1];
struct type_14 {
    metal::float4 inner[256];
};
struct type_15 {
    float inner[256];
};
struct type_16 {
    float inner[64];
};
struct type_19 {
    metal::uint2 inner[8];
};
constant uint FORMAT = 1u;
constant uint HEADS = 4u;
constant uint DIM = 256u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint THREADS = 256u;

float fused(
    float a_1,
    float b_1,
    float c
) {
    return metal::fma(a_1, b_1, c);
}

metal::float4 fused4_(
    metal::float4 a_2,
    metal::float4 b_2,
    metal::float4 c_1
) {
    return metal::fma(a_2, b_2, c_1);
}

float keep(
    float x_1,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<float>(as_type<uint>(x_1) ^ _e4);
}

metal::float4 keep4_(
    metal::float4 x_2,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<metal::float4>(as_type<metal::uint4>(x_2) ^ metal::uint4(_e4));
}

float added(
    float x_3,
    constant Params& params
) {
    if (REASSOCIATES) {
        float _e2 = keep(x_3, params);
        return _e2;
    }
    return x_3;
}

metal::float4 added4_(
    metal::float4 x_4,
    constant Params& params
) {
    if (REASSOCIATES) {
        metal::float4 _e2 = keep4_(x_4, params);
        return _e2;
    }
    return x_4;
}

float power_of_two(
    int e
) {
    return as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(e) + as_type<uint>(127))) << 23u);
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

int naga_neg(int val) {
    return as_type<int>(-as_type<uint>(val));
}

float divide(
    float a_3,
    float b_3
) {
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    uint q = {};
    int r = {};
    int i_9 = 0;
    bool local_9 = {};
    int i_10 = 0;
    bool local_10 = {};
    uint x_10 = as_type<uint>(a_3);
    uint y_2 = as_type<uint>(b_3);
    uint ex = (x_10 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_10 & 8388607u) | 8388608u;
    uint my = (y_2 & 8388607u) | 8388608u;
    bool big = mx >= my;
    uint shift_1 = big ? 23u : 24u;
    int e_1 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(ex)) - as_type<uint>(static_cast<int>(ey)))) + as_type<uint>(127))) - as_type<uint>(big ? 0 : 1));
    if (!((ex == 0u))) {
        local_4 = ey == 0u;
    } else {
        local_4 = true;
    }
    bool _e41 = local_4;
    if (!(_e41)) {
        local_5 = ex == 255u;
    } else {
        local_5 = true;
    }
    bool _e48 = local_5;
    if (!(_e48)) {
        local_6 = ey == 255u;
    } else {
        local_6 = true;
    }
    bool _e55 = local_6;
    if (!(_e55)) {
        local_7 = e_1 <= 0;
    } else {
        local_7 = true;
    }
    bool _e62 = local_7;
    if (!(_e62)) {
        local_8 = e_1 >= 255;
    } else {
        local_8 = true;
    }
    bool _e69 = local_8;
    if (_e69) {
        return a_3 / b_3;
    }
    float seed = as_type<float>((mx & 8388607u) | 1065353216u) / as_type<float>((my & 8388607u) | 1065353216u);
    float _e83 = power_of_two(static_cast<int>(shift_1));
    q = naga_f2u32(seed * _e83);
    uint _e88 = q;
    r = static_cast<int>((mx << shift_1) - (_e88 * my));
    int divisor = static_cast<int>(my);
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            int _e113 = i_9;
            i_9 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i_9;
        if (_e96 < 64) {
            int _e101 = r;
            int _e102 = r;
            local_9 = as_type<int>(as_type<uint>(_e101) + as_type<uint>(_e102)) > divisor;
        } else {
            local_9 = false;
        }
        bool _e106 = local_9;
        if (_e106) {
        } else {
            break;
        }
        {
            uint _e107 = q;
            q = _e107 + 1u;
            int _e110 = r;
            r = as_type<int>(as_type<uint>(_e110) - as_type<uint>(divisor));
        }
    }
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            int _e135 = i_10;
            i_10 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_10;
        if (_e117 < 64) {
            int _e122 = r;
            int _e123 = r;
            local_10 = as_type<int>(as_type<uint>(_e122) + as_type<uint>(_e123)) < naga_neg(divisor);
        } else {
            local_10 = false;
        }
        bool _e128 = local_10;
        if (_e128) {
        } else {
            break;
        }
        {
            uint _e129 = q;
            q = _e129 - 1u;
            int _e132 = r;
            r = as_type<int>(as_type<uint>(_e132) + as_type<uint>(divisor));
        }
    }
    uint _e143 = q;
    return as_type<float>(((x_10 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_5
) {
    uint s = {};
    int r_1 = {};
    int i_11 = 0;
    bool local_11 = {};
    int i_12 = 0;
    bool local_12 = {};
    uint bits = as_type<uint>(x_5);
    int e_2 = as_type<int>(as_type<uint>(static_cast<int>(bits >> 23u)) - as_type<uint>(127));
    int odd = e_2 & 1;
    uint m_1 = (bits & 8388607u) | 8388608u;
    float seed_1 = metal::sqrt(as_type<float>((m_1 & 8388607u) | 1065353216u) * static_cast<float>(as_type<int>(as_type<uint>(1) + as_type<uint>(odd))));
    s = naga_f2u32(seed_1 * 8388608.0);
    uint _e31 = s;
    uint _e32 = s;
    r_1 = static_cast<int>((m_1 << static_cast<uint>(as_type<int>(as_type<uint>(23) + as_type<uint>(odd)))) - (_e31 * _e32));
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            int _e62 = i_11;
            i_11 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_11;
        if (_e39 < 64) {
            int _e44 = r_1;
            uint _e45 = s;
            local_11 = _e44 > static_cast<int>(_e45);
        } else {
            local_11 = false;
        }
        bool _e49 = local_11;
        if (_e49) {
        } else {
            break;
        }
        {
            int _e50 = r_1;
            uint _e51 = s;
            uint _e52 = s;
            r_1 = as_type<int>(as_type<uint>(_e50) - as_type<uint>(static_cast<int>((_e51 + _e52) + 1u)));
            uint _e58 = s;
            s = _e58 + 1u;
        }
    }
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            int _e90 = i_12;
            i_12 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_12;
        if (_e66 < 64) {
            int _e71 = r_1;
            uint _e72 = s;
            local_12 = _e71 <= naga_neg(static_cast<int>(_e72));
        } else {
            local_12 = false;
        }
        bool _e77 = local_12;
        if (_e77) {
        } else {
            break;
        }
        {
            int _e78 = r_1;
            uint _e79 = s;
            uint _e80 = s;
            r_1 = as_type<int>(as_type<uint>(_e78) + as_type<uint>(static_cast<int>((_e79 + _e80) - 1u)));
            uint _e86 = s;
            s = _e86 - 1u;
        }
    }
    uint _e100 = s;
    return as_type<float>((static_cast<uint>(as_type<int>(as_type<uint>(naga_div(as_type<int>(as_type<uint>(e_2) - as_type<uint>(odd)), 2)) + as_type<uint>(127))) << 23u) + (_e100 - 8388608u));
}

float round_bits(
    uint m,
    uint rest,
    uint shift
) {
    bool local_13 = {};
    bool local_14 = {};
    uint half_ = 1u << (shift - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
            local_14 = (m & 1u) == 1u;
        } else {
            local_14 = false;
        }
        bool _e19 = local_14;
        local_13 = _e19;
    } else {
        local_13 = true;
    }
    bool up = local_13;
    float _e28 = power_of_two(static_cast<int>(shift));
    return static_cast<float>(m + (up ? 1u : 0u)) * _e28;
}

int naga_abs(int val) {
    return metal::select(as_type<int>(-as_type<uint>(val)), val, val >= 0);
}

float int_to_float(
    int i_13
) {
    uint m_2 = static_cast<uint>(naga_abs(i_13));
    if (m_2 < 16777216u) {
        return static_cast<float>(i_13);
    }
    uint shift_2 = 8u - metal::clz(m_2);
    float _e15 = round_bits(m_2 >> shift_2, m_2 & ((1u << shift_2) - 1u), shift_2);
    return (i_13 < 0) ? -(_e15) : _e15;
}

float wide_to_float(
    int high_in,
    uint low_in
) {
    int high = {};
    uint low = {};
    float y = {};
    high = high_in;
    low = low_in;
    int _e4 = high;
    bool negative = _e4 < 0;
    if (negative) {
        int _e7 = high;
        uint _e9 = low;
        high = as_type<int>(as_type<uint>(naga_neg(_e7)) - as_type<uint>((_e9 > 0u) ? 1 : 0));
        uint _e17 = low;
        low = (256u - _e17) & 255u;
    }
    int _e21 = high;
    uint h_1 = static_cast<uint>(_e21);
    if (h_1 < 65536u) {
        uint _e28 = low;
        y = static_cast<float>((h_1 * 256u) + _e28);
    } else {
        uint shift_3 = 16u - metal::clz(h_1);
        if (shift_3 <= 8u) {
            uint _e39 = low;
            uint _e42 = low;
            float _e48 = round_bits((h_1 << (8u - shift_3)) | (_e39 >> shift_3), _e42 & ((1u << shift_3) - 1u), shift_3);
            y = _e48;
        } else {
            uint lost = shift_3 - 8u;
            uint _e59 = low;
            float _e61 = round_bits(h_1 >> lost, ((h_1 & ((1u << lost) - 1u)) << 8u) | _e59, shift_3);
            y = _e61;
        }
    }
    float _e62 = y;
    float _e63 = y;
    return negative ? -(_e63) : _e62;
}

int naga_f2i32(float value) {
    return static_cast<int>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

int quantise(
    float x_6,
    float scale
) {
    float n = {};
    if ((as_type<uint>(x_6) & 2147483647u) > 2139095040u) {
        return 0;
    }
    float near = x_6 / scale;
    if (near >= 130.0) {
        return 127;
    }
    if (near <= -130.0) {
        return -128;
    }
    n = metal::rint(near);
    float _e17 = n;
    if (metal::abs(metal::abs(near - _e17) - 0.5) < 0.001) {
        float _e25 = divide(x_6, scale);
        n = metal::rint(_e25);
    }
    float _e27 = n;
    return metal::clamp(naga_f2i32(_e27), -128, 127);
}

uint pack(
    int a_4,
    int b_4,
    int c_2,
    int d_3
) {
    return (((static_cast<uint>(a_4) & 255u) | ((static_cast<uint>(b_4) & 255u) << 8u)) | ((static_cast<uint>(c_2) & 255u) << 16u)) | (static_cast<uint>(d_3) << 24u);
}

uint quantise4_(
    metal::float4 x_7,
    float scale_1
) {
    metal::int4 code = metal::int4 {};
    int i_14 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_14;
            i_14 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_14;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_14;
            int _e11 = i_14;
            int _e13 = quantise(x_7[_e11], scale_1);
            code[_e9] = _e13;
        }
    }
    int _e18 = code.x;
    int _e20 = code.y;
    int _e22 = code.z;
    int _e24 = code.w;
    uint _e25 = pack(_e18, _e20, _e22, _e24);
    return _e25;
}

metal::float4 divide4_(
    metal::float4 a_5,
    float b_5
) {
    metal::float4 y_1 = metal::float4 {};
    int i_15 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_15;
            i_15 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_15;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_15;
            int _e11 = i_15;
            float _e13 = divide(a_5[_e11], b_5);
            y_1[_e9] = _e13;
        }
    }
    metal::float4 _e17 = y_1;
    return _e17;
}

metal::int4 codes4_(
    uint word
) {
    int w_2 = as_type<int>(word);
    return metal::int4(w_2 << 24u, w_2 << 16u, w_2 << 8u, w_2) >> metal::uint4(24u);
}

float reciprocal_root(
    float mean_square,
    constant Params& params
) {
    float _e4 = keep(mean_square + 0.000001, params);
    float _e5 = square_root(_e4);
    float _e6 = divide(1.0, _e5);
    return _e6;
}

float tree(
    type_7 a_6,
    constant Params& params
) {
    metal::float4 _e4 = added4_(a_6.inner[0] + a_6.inner[4], params);
    metal::float4 _e8 = added4_(a_6.inner[1] + a_6.inner[5], params);
    metal::float4 _e12 = added4_(a_6.inner[2] + a_6.inner[6], params);
    metal::float4 _e16 = added4_(a_6.inner[3] + a_6.inner[7], params);
    metal::float4 _e18 = added4_(_e4 + _e12, params);
    metal::float4 _e20 = added4_(_e8 + _e16, params);
    metal::float4 _e22 = added4_(_e18 + _e20, params);
    float _e26 = added(_e22.x + _e22.z, params);
    float _e30 = added(_e22.y + _e22.w, params);
    float _e32 = added(_e26 + _e30, params);
    return _e32;
}

float exponential(
    float x_8,
    constant Params& params
) {
    float p = {};
    int i_16 = 1;
    if (!((x_8 >= -87.0))) {
        return 0.0;
    }
    float _e8 = keep(x_8 * as_type<float>(1069066811u), params);
    float n_1 = metal::rint(_e8);
    float _e16 = fused(n_1, -(as_type<float>(1060205056u)), x_8);
    float _e17 = fused(n_1, -(as_type<float>(901758606u)), _e16);
    p = as_type<float>(984945178u);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            int _e33 = i_16;
            i_16 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_16;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_16;
            float _e31 = fused(_e26, _e17, as_type<float>(EXP_COEFFICIENTS.inner[_e28]));
            p = _e31;
        }
    }
    float _e35 = p;
    float _e37 = power_of_two(naga_f2i32(n_1));
    float _e39 = keep(_e35 * _e37, params);
    return _e39;
}

uint to_half(
    float x_9
) {
    bool local_15 = {};
    bool local_16 = {};
    uint bits_1 = as_type<uint>(x_9);
    uint sign = (bits_1 >> 16u) & 32768u;
    uint magnitude = bits_1 & 2147483647u;
    if (magnitude > 2139095040u) {
        return sign;
    }
    if (magnitude >= 1199562752u) {
        return sign | 31743u;
    }
    if (magnitude < 947912704u) {
        if (magnitude <= 855638016u) {
            return sign;
        }
        uint shift_4 = 126u - (magnitude >> 23u);
        uint m_3 = (magnitude & 8388607u) | 8388608u;
        uint rest_1 = m_3 & ((1u << shift_4) - 1u);
        uint half_1 = 1u << (shift_4 - 1u);
        uint units_1 = m_3 >> shift_4;
        if (!((rest_1 > half_1))) {
            if (rest_1 == half_1) {
                local_16 = (units_1 & 1u) == 1u;
            } else {
                local_16 = false;
            }
            bool _e50 = local_16;
            local_15 = _e50;
        } else {
            local_15 = true;
        }
        bool _e52 = local_15;
        return sign | (units_1 + (_e52 ? 1u : 0u));
    }
    uint body = magnitude - 939524096u;
    uint rounded = (body + 4095u) + ((body >> 13u) & 1u);
    return sign | metal::min(rounded >> 13u, 31743u);
}

float from_half(
    uint h
) {
    uint sign_1 = (h & 32768u) << 16u;
    uint e_3 = (h >> 10u) & 31u;
    uint f = h & 1023u;
    if (e_3 == 0u) {
        return as_type<float>(as_type<uint>(static_cast<float>(f) * as_type<float>(864026624u)) | sign_1);
    }
    return as_type<float>((sign_1 | ((e_3 + 112u) << 23u)) | (f << 13u));
}

metal::float2 halves(
    uint word_1
) {
    if (NATIVE_HALF) {
        return float2(as_type<half2>(word_1));
    }
    float _e5 = from_half(word_1 & 65535u);
    float _e8 = from_half(word_1 >> 16u);
    return metal::float2(_e5, _e8);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint slot_of(
    uint position,
    constant Params& params
) {
    uint _e3 = params.slots;
    uint _e7 = params.ring;
    return (_e7 == 1u) ? naga_mod(position, _e3) : position;
}

metal::float4 float4_(
    metal::uint4 w_1
) {
    return as_type<metal::float4>(w_1);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint word_at(
    uint index,
    device type_13 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = kv[naga_div(index, 4u)][naga_mod(index, 4u)];
    return _e8;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, constant First& first [[user(fake0)]]
, device type_10 const& columns [[user(fake0)]]
, device type_11 const& query [[user(fake0)]]
, device type_12& tops [[user(fake0)]]
, device type_12& partial [[user(fake0)]]
, device type_13 const& kv [[user(fake0)]]
, threadgroup type_14& q_1
, threadgroup type_15& scores
, threadgroup type_15& weights
, threadgroup type_16& units
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local == 0u) {
        q_1 = {};
        scores = {};
        weights = {};
        units = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint begin = 0u;
    bool local_1 = {};
    uint i = {};
    bool local_2 = {};
    type_7 lanes = {};
    uint i_1 = 0u;
    float score = 0.0;
    uint d = 0u;
    uint i_2 = {};
    uint d_1 = 0u;
    uint i_3 = {};
    uint d_2 = 0u;
    uint i_4 = {};
    uint j = {};
    bool local_3 = {};
    float top = {};
    uint i_5 = {};
    float weight = 0.0;
    float sum = 0.0;
    uint i_6 = 0u;
    uint item = {};
    float a = {};
    float b = {};
    uint start = {};
    type_19 w = {};
    uint i_7 = {};
    uint i_8 = {};
    metal::float2 x = {};
    uint _e4 = first.column;
    uint column = _e4 + group.z;
    uint last = columns[column].position;
    uint _e15 = params.window;
    if (_e15 != 0u) {
        uint _e24 = params.window;
        local_1 = (last + 1u) > _e24;
    } else {
        local_1 = false;
    }
    bool _e27 = local_1;
    if (_e27) {
        uint _e32 = params.window;
        begin = (last + 1u) - _e32;
    }
    uint _e34 = begin;
    uint block = naga_div(_e34, 64u) + group.x;
    if ((block * 64u) > last) {
        return;
    }
    uint head = group.y * HEADS;
    uint _e47 = params.heads;
    uint _e50 = params.kv_heads;
    uint kv_head = naga_div(head, naga_div(_e47, _e50));
    i = local;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e74 = i;
            i = _e74 + THREADS;
        }
        loop_init_7 = false;
        uint _e54 = i;
        if (_e54 < 256u) {
        } else {
            break;
        }
        {
            uint _e58 = i;
            uint _e63 = params.in_stride;
            uint _e70 = i;
            metal::float4 _e73 = query[naga_div((column * _e63) + (head * DIM), 4u) + _e70];
            q_1.inner[_e58] = _e73;
        }
    }
    uint key = naga_mod(local, 64u);
    uint mine = naga_div(local, 64u);
    uint position_1 = (block * 64u) + key;
    uint _e84 = begin;
    if (position_1 >= _e84) {
        local_2 = position_1 <= last;
    } else {
        local_2 = false;
    }
    bool visible = local_2;
    uint _e93 = params.slots;
    uint _e97 = slot_of(block * 64u, params);
    uint rows = (kv_head * _e93) + _e97;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e109 = i_1;
            i_1 = _e109 + 1u;
        }
        loop_init_8 = false;
        uint _e102 = i_1;
        if (_e102 < 8u) {
        } else {
            break;
        }
        {
            uint _e105 = i_1;
            lanes.inner[_e105] = metal::float4 {};
        }
    }
    uint row = rows + key;
    uint query_start = mine * 64u;
    if (visible) {
        if (false) {
            uint2 loop_bound_9 = uint2(4294967295u);
            bool loop_init_9 = true;
            while(true) {
                if (metal::all(loop_bound_9 == uint2(0u))) { break; }
                loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
                if (!loop_init_9) {
                    uint _e158 = d;
                    d = _e158 + 1u;
                }
                loop_init_9 = false;
                uint _e119 = d;
                if (_e119 < 8u) {
                } else {
                    break;
                }
                {
                    i_2 = 0u;
                    uint2 loop_bound_10 = uint2(4294967295u);
                    bool loop_init_10 = true;
                    while(true) {
                        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
                        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
                        if (!loop_init_10) {
                            uint _e155 = i_2;
                            i_2 = _e155 + 1u;
                        }
                        loop_init_10 = false;
                        uint _e124 = i_2;
                        if (_e124 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e127 = i_2;
                            uint _e130 = d;
                            uint _e134 = i_2;
                            metal::float4 _e137 = q_1.inner[(query_start + (_e130 * 8u)) + _e134];
                            uint _e141 = d;
                            uint _e145 = i_2;
                            metal::uint4 _e148 = kv[((row * 64u) + (_e141 * 8u)) + _e145];
                            metal::float4 _e149 = float4_(_e148);
                            uint _e150 = i_2;
                            metal::float4 _e152 = lanes.inner[_e150];
                            metal::float4 _e153 = fused4_(_e137, _e149, _e152);
                            lanes.inner[_e127] = _e153;
                        }
                    }
                }
            }
        } else {
            if (true) {
                uint2 loop_bound_11 = uint2(4294967295u);
                bool loop_init_11 = true;
                while(true) {
                    if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                    loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                    if (!loop_init_11) {
                        uint _e236 = d_1;
                        d_1 = _e236 + 1u;
                    }
                    loop_init_11 = false;
                    uint _e163 = d_1;
                    if (_e163 < 8u) {
                    } else {
                        break;
                    }
                    {
                        i_3 = 0u;
                        uint2 loop_bound_12 = uint2(4294967295u);
                        bool loop_init_12 = true;
                        while(true) {
                            if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                            loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                            if (!loop_init_12) {
                                uint _e233 = i_3;
                                i_3 = _e233 + 1u;
                            }
                            loop_init_12 = false;
                            uint _e168 = i_3;
                            if (_e168 < 4u) {
                            } else {
                                break;
                            }
                            {
                                uint _e174 = d_1;
                                uint _e178 = i_3;
                                metal::uint4 w_3 = kv[((row * 32u) + (_e174 * 4u)) + _e178];
                                uint _e182 = d_1;
                                uint _e187 = i_3;
                                uint at = (query_start + (_e182 * 8u)) + (2u * _e187);
                                uint _e191 = i_3;
                                metal::float4 _e196 = q_1.inner[at];
                                metal::float2 _e198 = halves(w_3.x);
                                metal::float2 _e200 = halves(w_3.y);
                                uint _e203 = i_3;
                                metal::float4 _e206 = lanes.inner[2u * _e203];
                                metal::float4 _e207 = fused4_(_e196, metal::float4(_e198, _e200), _e206);
                                lanes.inner[2u * _e191] = _e207;
                                uint _e209 = i_3;
                                metal::float4 _e218 = q_1.inner[at + 1u];
                                metal::float2 _e220 = halves(w_3.z);
                                metal::float2 _e222 = halves(w_3.w);
                                uint _e225 = i_3;
                                metal::float4 _e230 = lanes.inner[(2u * _e225) + 1u];
                                metal::float4 _e231 = fused4_(_e218, metal::float4(_e220, _e222), _e230);
                                lanes.inner[(2u * _e209) + 1u] = _e231;
                            }
                        }
                    }
                }
            } else {
                uint _e240 = params.kv_key_scales;
                uint _e242 = word_at(_e240 + row, kv, _buffer_sizes);
                float unit = as_type<float>(_e242);
                uint2 loop_bound_13 = uint2(4294967295u);
                bool loop_init_13 = true;
                while(true) {
                    if (metal::all(loop_bound_13 == uint2(0u))) { break; }
                    loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
                    if (!loop_init_13) {
                        uint _e310 = d_2;
                        d_2 = _e310 + 1u;
                    }
                    loop_init_13 = false;
                    uint _e246 = d_2;
                    if (_e246 < 8u) {
                    } else {
                        break;
                    }
                    {
                        i_4 = 0u;
                        uint2 loop_bound_14 = uint2(4294967295u);
                        bool loop_init_14 = true;
                        while(true) {
                            if (metal::all(loop_bound_14 == uint2(0u))) { break; }
                            loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
                            if (!loop_init_14) {
                                uint _e307 = i_4;
                                i_4 = _e307 + 1u;
                            }
                            loop_init_14 = false;
                            uint _e251 = i_4;
                            if (_e251 < 2u) {
                            } else {
                                break;
                            }
                            {
                                uint _e257 = d_2;
                                uint _e261 = i_4;
                                metal::uint4 w_4 = kv[((row * 16u) + (_e257 * 2u)) + _e261];
                                j = 0u;
                                uint2 loop_bound_15 = uint2(4294967295u);
                                bool loop_init_15 = true;
                                while(true) {
                                    if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                                    loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                                    if (!loop_init_15) {
                                        uint _e304 = j;
                                        j = _e304 + 1u;
                                    }
                                    loop_init_15 = false;
                                    uint _e267 = j;
                                    if (_e267 < 4u) {
                                    } else {
                                        break;
                                    }
                                    {
                                        uint _e270 = j;
                                        metal::int4 _e272 = codes4_(w_4[_e270]);
                                        metal::float4 _e275 = keep4_(static_cast<metal::float4>(_e272) * unit, params);
                                        uint _e277 = i_4;
                                        uint _e279 = j;
                                        uint _e283 = d_2;
                                        uint _e288 = i_4;
                                        uint _e291 = j;
                                        metal::float4 _e294 = q_1.inner[((query_start + (_e283 * 8u)) + (4u * _e288)) + _e291];
                                        uint _e296 = i_4;
                                        uint _e298 = j;
                                        metal::float4 _e301 = lanes.inner[(4u * _e296) + _e298];
                                        metal::float4 _e302 = fused4_(_e294, _e275, _e301);
                                        lanes.inner[(4u * _e277) + _e279] = _e302;
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        type_7 _e312 = lanes;
        float _e313 = tree(_e312, params);
        score = _e313;
    }
    float _e316 = score;
    scores.inner[local] = _e316;
    if (false) {
        local_3 = mine == 0u;
    } else {
        local_3 = false;
    }
    bool _e323 = local_3;
    if (_e323) {
        uint _e328 = params.kv_value_scales;
        uint _e330 = word_at(_e328 + row, kv, _buffer_sizes);
        units.inner[key] = as_type<float>(_e330);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e332 = begin;
    uint begin_at = metal::max(_e332, block * 64u) - (block * 64u);
    uint to = metal::min(last - (block * 64u), 63u);
    float _e349 = scores.inner[(mine * 64u) + begin_at];
    top = _e349;
    i_5 = begin_at + 1u;
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e366 = i_5;
            i_5 = _e366 + 1u;
        }
        loop_init_16 = false;
        uint _e354 = i_5;
        if (_e354 <= to) {
        } else {
            break;
        }
        {
            float _e356 = top;
            uint _e360 = i_5;
            float _e363 = scores.inner[(mine * 64u) + _e360];
            top = metal::max(_e356, _e363);
        }
    }
    if (visible) {
        float _e370 = score;
        float _e371 = top;
        float _e373 = keep(_e370 - _e371, params);
        float _e374 = exponential(_e373, params);
        weight = _e374;
    }
    float _e377 = weight;
    weights.inner[local] = _e377;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e381 = params.partials;
    uint slot = (group.z * _e381) + group.x;
    if (key == 0u) {
        uint2 loop_bound_17 = uint2(4294967295u);
        bool loop_init_17 = true;
        while(true) {
            if (metal::all(loop_bound_17 == uint2(0u))) { break; }
            loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
            if (!loop_init_17) {
                uint _e405 = i_6;
                i_6 = _e405 + 1u;
            }
            loop_init_17 = false;
            uint _e391 = i_6;
            if (_e391 < 64u) {
            } else {
                break;
            }
            {
                float _e394 = sum;
                uint _e398 = i_6;
                float _e401 = weights.inner[(mine * 64u) + _e398];
                float _e403 = added(_e394 + _e401, params);
                sum = _e403;
            }
        }
        uint _e410 = params.heads;
        float _e415 = top;
        float _e416 = sum;
        tops[((slot * _e410) + head) + mine] = metal::float2(_e415, _e416);
    }
    uint values = params.kv_values;
    item = local;
    uint2 loop_bound_18 = uint2(4294967295u);
    bool loop_init_18 = true;
    while(true) {
        if (metal::all(loop_bound_18 == uint2(0u))) { break; }
        loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
        if (!loop_init_18) {
            uint _e579 = item;
            item = _e579 + THREADS;
        }
        loop_init_18 = false;
        uint _e422 = item;
        if (_e422 < 512u) {
        } else {
            break;
        }
        {
            uint _e425 = item;
            uint pair = naga_mod(_e425, 128u);
            uint _e428 = item;
            uint which = naga_div(_e428, 128u);
            a = 0.0;
            b = 0.0;
            start = 0u;
            uint2 loop_bound_19 = uint2(4294967295u);
            bool loop_init_19 = true;
            while(true) {
                if (metal::all(loop_bound_19 == uint2(0u))) { break; }
                loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
                if (!loop_init_19) {
                    uint _e562 = start;
                    start = _e562 + 8u;
                }
                loop_init_19 = false;
                uint _e437 = start;
                if (_e437 < 64u) {
                } else {
                    break;
                }
                {
                    w = type_19 {};
                    i_7 = 0u;
                    uint2 loop_bound_20 = uint2(4294967295u);
                    bool loop_init_20 = true;
                    while(true) {
                        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
                        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
                        if (!loop_init_20) {
                            uint _e485 = i_7;
                            i_7 = _e485 + 1u;
                        }
                        loop_init_20 = false;
                        uint _e444 = i_7;
                        if (_e444 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e447 = start;
                            uint _e449 = i_7;
                            uint value = (rows + _e447) + _e449;
                            if (false) {
                                uint at_1 = (values + (value * DIM)) + (2u * pair);
                                uint _e458 = i_7;
                                uint _e460 = word_at(at_1, kv, _buffer_sizes);
                                uint _e463 = word_at(at_1 + 1u, kv, _buffer_sizes);
                                w.inner[_e458] = metal::uint2(_e460, _e463);
                            } else {
                                if (true) {
                                    uint _e466 = i_7;
                                    uint _e473 = word_at((values + (value * 128u)) + pair, kv, _buffer_sizes);
                                    w.inner[_e466].x = _e473;
                                } else {
                                    uint _e474 = i_7;
                                    uint _e483 = word_at((values + (value * 64u)) + naga_div(pair, 2u), kv, _buffer_sizes);
                                    w.inner[_e474].x = _e483;
                                }
                            }
                        }
                    }
                    i_8 = 0u;
                    uint2 loop_bound_21 = uint2(4294967295u);
                    bool loop_init_21 = true;
                    while(true) {
                        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
                        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
                        if (!loop_init_21) {
                            uint _e560 = i_8;
                            i_8 = _e560 + 1u;
                        }
                        loop_init_21 = false;
                        uint _e489 = i_8;
                        if (_e489 < 8u) {
                        } else {
                            break;
                        }
                        {
                            x = metal::float2 {};
                            if (false) {
                                uint _e495 = i_8;
                                metal::uint2 _e497 = w.inner[_e495];
                                x = as_type<metal::float2>(_e497);
                            } else {
                                if (true) {
                                    uint _e500 = i_8;
                                    uint _e503 = w.inner[_e500].x;
                                    metal::float2 _e504 = halves(_e503);
                                    x = _e504;
                                } else {
                                    uint _e505 = i_8;
                                    uint _e508 = w.inner[_e505].x;
                                    uint _e509 = i_8;
                                    uint _e512 = w.inner[_e509].x;
                                    metal::int4 _e520 = codes4_((naga_mod(pair, 2u) == 1u) ? (_e512 >> 16u) : _e508);
                                    uint _e524 = start;
                                    uint _e525 = i_8;
                                    float _e528 = units.inner[_e524 + _e525];
                                    float _e530 = keep(static_cast<float>(_e520.x) * _e528, params);
                                    uint _e534 = start;
                                    uint _e535 = i_8;
                                    float _e538 = units.inner[_e534 + _e535];
                                    float _e540 = keep(static_cast<float>(_e520.y) * _e538, params);
                                    x = metal::float2(_e530, _e540);
                                }
                            }
                            uint _e545 = start;
                            uint _e547 = i_8;
                            float p_1 = weights.inner[((which * 64u) + _e545) + _e547];
                            float _e552 = x.x;
                            float _e553 = a;
                            float _e554 = fused(p_1, _e552, _e553);
                            a = _e554;
                            float _e556 = x.y;
                            float _e557 = b;
                            float _e558 = fused(p_1, _e556, _e557);
                            b = _e558;
                        }
                    }
                }
            }
            uint _e568 = params.heads;
            float _e576 = a;
            float _e577 = b;
            partial[((((slot * _e568) + head) + which) * 128u) + pair] = metal::float2(_e576, _e577);
        }
    }
    return;
}
