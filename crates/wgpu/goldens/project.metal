// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
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
    uint stream_in;
    uint stream_out;
    float join_scale;
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
typedef metal::uint4 type_10[1];
typedef metal::float4 type_11[1];
typedef float type_12[1];
struct type_13 {
    metal::float4 inner[128];
};
struct type_14 {
    metal::uint4 inner[8];
};
struct type_16 {
    metal::float4 inner[4];
};
constant uint COLUMNS = 4u;
constant uint EARLY = 0u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};

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
    float x,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<float>(as_type<uint>(x) ^ _e4);
}

metal::float4 keep4_(
    metal::float4 x_1,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<metal::float4>(as_type<metal::uint4>(x_1) ^ metal::uint4(_e4));
}

float added(
    float x_2,
    constant Params& params
) {
    if (REASSOCIATES) {
        float _e2 = keep(x_2, params);
        return _e2;
    }
    return x_2;
}

metal::float4 added4_(
    metal::float4 x_3,
    constant Params& params
) {
    if (REASSOCIATES) {
        metal::float4 _e2 = keep4_(x_3, params);
        return _e2;
    }
    return x_3;
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
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    uint q = {};
    int r = {};
    int i_1 = 0;
    bool local_7 = {};
    int i_2 = 0;
    bool local_8 = {};
    uint x_9 = as_type<uint>(a_3);
    uint y_2 = as_type<uint>(b_3);
    uint ex = (x_9 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_9 & 8388607u) | 8388608u;
    uint my = (y_2 & 8388607u) | 8388608u;
    bool big = mx >= my;
    uint shift_1 = big ? 23u : 24u;
    int e_1 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(ex)) - as_type<uint>(static_cast<int>(ey)))) + as_type<uint>(127))) - as_type<uint>(big ? 0 : 1));
    if (!((ex == 0u))) {
        local_2 = ey == 0u;
    } else {
        local_2 = true;
    }
    bool _e41 = local_2;
    if (!(_e41)) {
        local_3 = ex == 255u;
    } else {
        local_3 = true;
    }
    bool _e48 = local_3;
    if (!(_e48)) {
        local_4 = ey == 255u;
    } else {
        local_4 = true;
    }
    bool _e55 = local_4;
    if (!(_e55)) {
        local_5 = e_1 <= 0;
    } else {
        local_5 = true;
    }
    bool _e62 = local_5;
    if (!(_e62)) {
        local_6 = e_1 >= 255;
    } else {
        local_6 = true;
    }
    bool _e69 = local_6;
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
            int _e113 = i_1;
            i_1 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i_1;
        if (_e96 < 64) {
            int _e101 = r;
            int _e102 = r;
            local_7 = as_type<int>(as_type<uint>(_e101) + as_type<uint>(_e102)) > divisor;
        } else {
            local_7 = false;
        }
        bool _e106 = local_7;
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
            int _e135 = i_2;
            i_2 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_2;
        if (_e117 < 64) {
            int _e122 = r;
            int _e123 = r;
            local_8 = as_type<int>(as_type<uint>(_e122) + as_type<uint>(_e123)) < naga_neg(divisor);
        } else {
            local_8 = false;
        }
        bool _e128 = local_8;
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
    return as_type<float>(((x_9 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_4
) {
    uint s = {};
    int r_1 = {};
    int i_3 = 0;
    bool local_9 = {};
    int i_4 = 0;
    bool local_10 = {};
    uint bits = as_type<uint>(x_4);
    int e_2 = as_type<int>(as_type<uint>(static_cast<int>(bits >> 23u)) - as_type<uint>(127));
    int odd = e_2 & 1;
    uint m_4 = (bits & 8388607u) | 8388608u;
    float seed_1 = metal::sqrt(as_type<float>((m_4 & 8388607u) | 1065353216u) * static_cast<float>(as_type<int>(as_type<uint>(1) + as_type<uint>(odd))));
    s = naga_f2u32(seed_1 * 8388608.0);
    uint _e31 = s;
    uint _e32 = s;
    r_1 = static_cast<int>((m_4 << static_cast<uint>(as_type<int>(as_type<uint>(23) + as_type<uint>(odd)))) - (_e31 * _e32));
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            int _e62 = i_3;
            i_3 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_3;
        if (_e39 < 64) {
            int _e44 = r_1;
            uint _e45 = s;
            local_9 = _e44 > static_cast<int>(_e45);
        } else {
            local_9 = false;
        }
        bool _e49 = local_9;
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
            int _e90 = i_4;
            i_4 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_4;
        if (_e66 < 64) {
            int _e71 = r_1;
            uint _e72 = s;
            local_10 = _e71 <= naga_neg(static_cast<int>(_e72));
        } else {
            local_10 = false;
        }
        bool _e77 = local_10;
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
    uint m_3,
    uint rest,
    uint shift
) {
    bool local_11 = {};
    bool local_12 = {};
    uint half_ = 1u << (shift - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
            local_12 = (m_3 & 1u) == 1u;
        } else {
            local_12 = false;
        }
        bool _e19 = local_12;
        local_11 = _e19;
    } else {
        local_11 = true;
    }
    bool up = local_11;
    float _e28 = power_of_two(static_cast<int>(shift));
    return static_cast<float>(m_3 + (up ? 1u : 0u)) * _e28;
}

int naga_abs(int val) {
    return metal::select(as_type<int>(-as_type<uint>(val)), val, val >= 0);
}

float int_to_float(
    int i_5
) {
    uint m_5 = static_cast<uint>(naga_abs(i_5));
    if (m_5 < 16777216u) {
        return static_cast<float>(i_5);
    }
    uint shift_2 = 8u - metal::clz(m_5);
    float _e15 = round_bits(m_5 >> shift_2, m_5 & ((1u << shift_2) - 1u), shift_2);
    return (i_5 < 0) ? -(_e15) : _e15;
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
    float x_5,
    float scale
) {
    float n = {};
    if ((as_type<uint>(x_5) & 2147483647u) > 2139095040u) {
        return 0;
    }
    float near = x_5 / scale;
    if (near >= 130.0) {
        return 127;
    }
    if (near <= -130.0) {
        return -128;
    }
    n = metal::rint(near);
    float _e17 = n;
    if (metal::abs(metal::abs(near - _e17) - 0.5) < 0.001) {
        float _e25 = divide(x_5, scale);
        n = metal::rint(_e25);
    }
    float _e27 = n;
    return metal::clamp(naga_f2i32(_e27), -128, 127);
}

uint pack(
    int a_4,
    int b_4,
    int c_2,
    int d
) {
    return (((static_cast<uint>(a_4) & 255u) | ((static_cast<uint>(b_4) & 255u) << 8u)) | ((static_cast<uint>(c_2) & 255u) << 16u)) | (static_cast<uint>(d) << 24u);
}

uint quantise4_(
    metal::float4 x_6,
    float scale_1
) {
    metal::int4 code = metal::int4 {};
    int i_6 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_6;
            i_6 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_6;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_6;
            int _e11 = i_6;
            int _e13 = quantise(x_6[_e11], scale_1);
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
    int i_7 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_7;
            i_7 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_7;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_7;
            int _e11 = i_7;
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
    int w_3 = as_type<int>(word);
    return metal::int4(w_3 << 24u, w_3 << 16u, w_3 << 8u, w_3) >> metal::uint4(24u);
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
    float x_7,
    constant Params& params
) {
    float p = {};
    int i_8 = 1;
    if (!((x_7 >= -87.0))) {
        return 0.0;
    }
    float _e8 = keep(x_7 * as_type<float>(1069066811u), params);
    float n_1 = metal::rint(_e8);
    float _e16 = fused(n_1, -(as_type<float>(1060205056u)), x_7);
    float _e17 = fused(n_1, -(as_type<float>(901758606u)), _e16);
    p = as_type<float>(984945178u);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            int _e33 = i_8;
            i_8 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_8;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_8;
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
    float x_8
) {
    bool local_13 = {};
    bool local_14 = {};
    uint bits_1 = as_type<uint>(x_8);
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
        uint m_6 = (magnitude & 8388607u) | 8388608u;
        uint rest_1 = m_6 & ((1u << shift_4) - 1u);
        uint half_1 = 1u << (shift_4 - 1u);
        uint units = m_6 >> shift_4;
        if (!((rest_1 > half_1))) {
            if (rest_1 == half_1) {
                local_14 = (units & 1u) == 1u;
            } else {
                local_14 = false;
            }
            bool _e50 = local_14;
            local_13 = _e50;
        } else {
            local_13 = true;
        }
        bool _e52 = local_13;
        return sign | (units + (_e52 ? 1u : 0u));
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

metal::float4 upper(
    metal::uint4 w_1
) {
    return as_type<metal::float4>(w_1 & metal::uint4(4294901760u));
}

metal::float4 lower(
    metal::uint4 w_2
) {
    return as_type<metal::float4>(w_2 << metal::uint4(16u));
}

type_14 eight(
    uint at,
    uint steps,
    device type_10 const& weights,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint end = at + ((steps - 1u) * 4u);
    metal::uint4 _e9 = weights[at];
    metal::uint4 _e15 = weights[metal::min(at + 4u, end)];
    metal::uint4 _e21 = weights[metal::min(at + 8u, end)];
    metal::uint4 _e27 = weights[metal::min(at + 12u, end)];
    metal::uint4 _e33 = weights[metal::min(at + 16u, end)];
    metal::uint4 _e39 = weights[metal::min(at + 20u, end)];
    metal::uint4 _e45 = weights[metal::min(at + 24u, end)];
    metal::uint4 _e51 = weights[metal::min(at + 28u, end)];
    return type_14 {{_e9, _e15, _e21, _e27, _e33, _e39, _e45, _e51}};
}
uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, device type_10 const& weights [[user(fake0)]]
, device type_11 const& input [[user(fake0)]]
, device type_12& output [[user(fake0)]]
, threadgroup type_13& lanes
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local == 0u) {
        lanes = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    type_16 a = {};
    type_16 b = {};
    uint m = 0u;
    type_14 held = {};
    uint step = 0u;
    bool local_1 = {};
    metal::uint4 w = {};
    uint m_1 = {};
    uint m_2 = 0u;
    type_7 all = {};
    uint i = {};
    uint row = (group.x * 16u) + naga_div(local, 4u);
    uint part = naga_mod(local, 4u);
    uint first = group.y * COLUMNS;
    uint _e15 = params.inputs;
    uint steps_1 = naga_div(_e15, 32u);
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e32 = m;
            m = _e32 + 1u;
        }
        loop_init_7 = false;
        uint _e22 = m;
        if (_e22 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e25 = m;
            a.inner[_e25] = metal::float4 {};
            uint _e28 = m;
            b.inner[_e28] = metal::float4 {};
        }
    }
    uint begin_at = ((row * steps_1) * 4u) + part;
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e133 = step;
            step = _e133 + 1u;
        }
        loop_init_8 = false;
        uint _e41 = step;
        if (_e41 < steps_1) {
        } else {
            break;
        }
        {
            if (false) {
                uint _e46 = step;
                local_1 = naga_mod(_e46, 8u) == 0u;
            } else {
                local_1 = false;
            }
            bool _e52 = local_1;
            if (_e52) {
                uint _e53 = step;
                uint _e57 = step;
                type_14 _e59 = eight(begin_at + (_e53 * 4u), steps_1 - _e57, weights, _buffer_sizes);
                held = _e59;
            }
            w = metal::uint4 {};
            if (false) {
                uint _e63 = step;
                metal::uint4 _e67 = held.inner[naga_mod(_e63, 8u)];
                w = _e67;
            } else {
                uint _e69 = step;
                metal::uint4 _e74 = weights[begin_at + (_e69 * 4u)];
                w = _e74;
            }
            metal::uint4 _e75 = w;
            metal::float4 _e76 = upper(_e75);
            metal::uint4 _e77 = w;
            metal::float4 _e78 = lower(_e77);
            metal::float4 w0_ = metal::float4(_e78.x, _e76.x, _e78.y, _e76.y);
            metal::float4 w1_ = metal::float4(_e78.z, _e76.z, _e78.w, _e76.w);
            m_1 = 0u;
            uint2 loop_bound_9 = uint2(4294967295u);
            bool loop_init_9 = true;
            while(true) {
                if (metal::all(loop_bound_9 == uint2(0u))) { break; }
                loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
                if (!loop_init_9) {
                    uint _e130 = m_1;
                    m_1 = _e130 + 1u;
                }
                loop_init_9 = false;
                uint _e91 = m_1;
                if (_e91 < COLUMNS) {
                } else {
                    break;
                }
                {
                    uint _e94 = m_1;
                    uint _e98 = params.inputs;
                    uint _e102 = step;
                    uint at_1 = (((first + _e94) * naga_div(_e98, 4u)) + (_e102 * 8u)) + (part * 2u);
                    uint _e109 = m_1;
                    metal::float4 _e113 = input[at_1];
                    uint _e114 = m_1;
                    metal::float4 _e116 = a.inner[_e114];
                    metal::float4 _e117 = fused4_(w0_, _e113, _e116);
                    a.inner[_e109] = _e117;
                    uint _e118 = m_1;
                    metal::float4 _e124 = input[at_1 + 1u];
                    uint _e125 = m_1;
                    metal::float4 _e127 = b.inner[_e125];
                    metal::float4 _e128 = fused4_(w1_, _e124, _e127);
                    b.inner[_e118] = _e128;
                }
            }
        }
    }
    uint2 loop_bound_10 = uint2(4294967295u);
    bool loop_init_10 = true;
    while(true) {
        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
        if (!loop_init_10) {
            uint _e194 = m_2;
            m_2 = _e194 + 1u;
        }
        loop_init_10 = false;
        uint _e137 = m_2;
        if (_e137 < COLUMNS) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e144 = m_2;
            metal::float4 _e146 = a.inner[_e144];
            lanes.inner[local * 2u] = _e146;
            uint _e153 = m_2;
            metal::float4 _e155 = b.inner[_e153];
            lanes.inner[(local * 2u) + 1u] = _e155;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            if (part == 0u) {
                all = type_7 {};
                i = 0u;
                uint2 loop_bound_11 = uint2(4294967295u);
                bool loop_init_11 = true;
                while(true) {
                    if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                    loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                    if (!loop_init_11) {
                        uint _e175 = i;
                        i = _e175 + 1u;
                    }
                    loop_init_11 = false;
                    uint _e162 = i;
                    if (_e162 < 8u) {
                    } else {
                        break;
                    }
                    {
                        uint _e165 = i;
                        uint _e170 = i;
                        metal::float4 _e173 = lanes.inner[(local * 2u) + _e170];
                        all.inner[_e165] = _e173;
                    }
                }
                uint _e178 = m_2;
                uint _e182 = params.out_stride;
                type_7 _e186 = all;
                float _e187 = tree(_e186, params);
                float _e190 = params.factor;
                float _e192 = keep(_e187 * _e190, params);
                output[((first + _e178) * _e182) + row] = _e192;
            }
        }
    }
    return;
}
