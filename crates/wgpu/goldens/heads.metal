// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size2;
    uint size3;
    uint size4;
    uint size5;
    uint size9;
    uint size10;
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
struct type_6 {
    metal::float4 inner[8];
};
struct type_7 {
    uint inner[7];
};
struct First {
    uint column;
    uint spare_a;
    uint spare_b;
    uint spare_c;
};
typedef uint type_9[1];
typedef float type_10[1];
typedef metal::float4 type_11[1];
struct Chunk {
    metal::float4 a;
    metal::float4 b;
};
struct type_13 {
    metal::atomic_int inner[1];
};
struct type_15 {
    metal::atomic_uint inner[1];
};
struct type_16 {
    uint inner[512];
};
typedef Column type_17[1];
constant uint FORMAT = 1u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_7 EXP_COEFFICIENTS = type_7 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint QUERY = 0u;
constant uint KEY = 1u;
constant uint VALUE = 2u;
constant uint VECTORS = 1u;
constant uint THREADS = 64u;

float fused(
    float a,
    float b,
    float c
) {
    return metal::fma(a, b, c);
}

metal::float4 fused4_(
    metal::float4 a_1,
    metal::float4 b_1,
    metal::float4 c_1
) {
    return metal::fma(a_1, b_1, c_1);
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
    float a_2,
    float b_2
) {
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    uint q = {};
    int r = {};
    int i_5 = 0;
    bool local_7 = {};
    int i_6 = 0;
    bool local_8 = {};
    uint x_10 = as_type<uint>(a_2);
    uint y_2 = as_type<uint>(b_2);
    uint ex = (x_10 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_10 & 8388607u) | 8388608u;
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
        return a_2 / b_2;
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
            int _e113 = i_5;
            i_5 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i_5;
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
            int _e135 = i_6;
            i_6 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_6;
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
    return as_type<float>(((x_10 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_4
) {
    uint s = {};
    int r_1 = {};
    int i_7 = 0;
    bool local_9 = {};
    int i_8 = 0;
    bool local_10 = {};
    uint bits = as_type<uint>(x_4);
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
            int _e62 = i_7;
            i_7 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_7;
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
            int _e90 = i_8;
            i_8 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_8;
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
    uint m,
    uint rest,
    uint shift
) {
    bool local_11 = {};
    bool local_12 = {};
    uint half_ = 1u << (shift - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
            local_12 = (m & 1u) == 1u;
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
    return static_cast<float>(m + (up ? 1u : 0u)) * _e28;
}

int naga_abs(int val) {
    return metal::select(as_type<int>(-as_type<uint>(val)), val, val >= 0);
}

float int_to_float(
    int i_9
) {
    uint m_2 = static_cast<uint>(naga_abs(i_9));
    if (m_2 < 16777216u) {
        return static_cast<float>(i_9);
    }
    uint shift_2 = 8u - metal::clz(m_2);
    float _e15 = round_bits(m_2 >> shift_2, m_2 & ((1u << shift_2) - 1u), shift_2);
    return (i_9 < 0) ? -(_e15) : _e15;
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
    int a_3,
    int b_3,
    int c_2,
    int d
) {
    return (((static_cast<uint>(a_3) & 255u) | ((static_cast<uint>(b_3) & 255u) << 8u)) | ((static_cast<uint>(c_2) & 255u) << 16u)) | (static_cast<uint>(d) << 24u);
}

uint quantise4_(
    metal::float4 x_6,
    float scale_1
) {
    metal::int4 code = metal::int4 {};
    int i_10 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_10;
            i_10 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_10;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_10;
            int _e11 = i_10;
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
    metal::float4 a_4,
    float b_4
) {
    metal::float4 y_1 = metal::float4 {};
    int i_11 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_11;
            i_11 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_11;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_11;
            int _e11 = i_11;
            float _e13 = divide(a_4[_e11], b_4);
            y_1[_e9] = _e13;
        }
    }
    metal::float4 _e17 = y_1;
    return _e17;
}

metal::int4 codes4_(
    uint word
) {
    int w = as_type<int>(word);
    return metal::int4(w << 24u, w << 16u, w << 8u, w) >> metal::uint4(24u);
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
    type_6 a_5,
    constant Params& params
) {
    metal::float4 _e4 = added4_(a_5.inner[0] + a_5.inner[4], params);
    metal::float4 _e8 = added4_(a_5.inner[1] + a_5.inner[5], params);
    metal::float4 _e12 = added4_(a_5.inner[2] + a_5.inner[6], params);
    metal::float4 _e16 = added4_(a_5.inner[3] + a_5.inner[7], params);
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
    int i_12 = 1;
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
            int _e33 = i_12;
            i_12 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_12;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_12;
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
        uint m_3 = (magnitude & 8388607u) | 8388608u;
        uint rest_1 = m_3 & ((1u << shift_4) - 1u);
        uint half_1 = 1u << (shift_4 - 1u);
        uint units = m_3 >> shift_4;
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

float scale_of(
    uint kind_1,
    constant Params& params
) {
    if (kind_1 == QUERY) {
        float _e5 = params.output_scale;
        return _e5;
    }
    float _e8 = params.up_scale;
    float _e11 = params.next_scale;
    return (kind_1 == VALUE) ? _e11 : _e8;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint codes_of(
    uint kind_2,
    uint column,
    uint head_1,
    constant Params& params
) {
    uint at = {};
    uint _e5 = params.in_stride;
    uint _e9 = params.head_dim;
    at = (column * _e5) + (head_1 * naga_div(_e9, 4u));
    if (kind_2 != QUERY) {
        uint _e17 = at;
        uint _e20 = params.other_stride;
        at = _e17 + _e20;
    }
    if (kind_2 == VALUE) {
        uint _e24 = at;
        uint _e27 = params.other_offset;
        at = _e24 + _e27;
    }
    uint _e29 = at;
    return _e29;
}

void add_squares(
    uint vector,
    uint start,
    uint i_13,
    constant Params& params,
    device type_9 const& qkv,
    threadgroup type_13& squares,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint a_7 = qkv[start + i_13];
    uint _e10 = params.head_dim;
    uint b_6 = qkv[(start + naga_div(_e10, 8u)) + i_13];
    packed_char4 reinterpreted_packed_char4_e6 = as_type<packed_char4>(a_7);
    packed_char4 reinterpreted_packed_char4_e6 = as_type<packed_char4>(a_7);
    packed_char4 reinterpreted_packed_char4_e16 = as_type<packed_char4>(b_6);
    packed_char4 reinterpreted_packed_char4_e16 = as_type<packed_char4>(b_6);
    int _e22 = metal::atomic_fetch_add_explicit(&squares.inner[vector], as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e6[0] * reinterpreted_packed_char4_e6[0] + reinterpreted_packed_char4_e6[1] * reinterpreted_packed_char4_e6[1] + reinterpreted_packed_char4_e6[2] * reinterpreted_packed_char4_e6[2] + reinterpreted_packed_char4_e6[3] * reinterpreted_packed_char4_e6[3])) + as_type<uint>(( + reinterpreted_packed_char4_e16[0] * reinterpreted_packed_char4_e16[0] + reinterpreted_packed_char4_e16[1] * reinterpreted_packed_char4_e16[1] + reinterpreted_packed_char4_e16[2] * reinterpreted_packed_char4_e16[2] + reinterpreted_packed_char4_e16[3] * reinterpreted_packed_char4_e16[3]))), metal::memory_order_relaxed);
    return;
}

Chunk chunk_of(
    uint vector_1,
    uint kind_3,
    uint start_1,
    uint i_14,
    uint position_1,
    constant Params& params,
    device type_9 const& qkv,
    device type_10 const& norms,
    device type_10 const& turns,
    threadgroup type_13& squares,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 a_6 = {};
    metal::float4 b_5 = {};
    uint j = 0u;
    uint dim = params.head_dim;
    float _e8 = scale_of(kind_3, params);
    int _e11 = metal::atomic_load_explicit(&squares.inner[vector_1], metal::memory_order_relaxed);
    float _e12 = int_to_float(_e11);
    float _e14 = keep(_e8 * _e8, params);
    float _e16 = keep(_e12 * _e14, params);
    float _e18 = divide(_e16, static_cast<float>(dim));
    float _e19 = reciprocal_root(_e18, params);
    uint _e23 = qkv[start_1 + i_14];
    metal::int4 _e24 = codes4_(_e23);
    metal::float4 _e27 = keep4_(static_cast<metal::float4>(_e24) * _e8, params);
    metal::float4 _e29 = keep4_(_e27 * _e19, params);
    a_6 = _e29;
    uint _e37 = qkv[(start_1 + naga_div(dim, 8u)) + i_14];
    metal::int4 _e38 = codes4_(_e37);
    metal::float4 _e41 = keep4_(static_cast<metal::float4>(_e38) * _e8, params);
    metal::float4 _e43 = keep4_(_e41 * _e19, params);
    b_5 = _e43;
    if (kind_3 == VALUE) {
        metal::float4 _e47 = a_6;
        metal::float4 _e48 = b_5;
        return Chunk {_e47, _e48};
    }
    uint norm = ((kind_3 == KEY) ? dim : 0u) + (4u * i_14);
    uint _e61 = params.pairs;
    uint row = (position_1 * 2u) * _e61;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e132 = j;
            j = _e132 + 1u;
        }
        loop_init_7 = false;
        uint _e65 = j;
        if (_e65 < 4u) {
        } else {
            break;
        }
        {
            uint _e68 = j;
            float _e70 = a_6[_e68];
            uint _e72 = j;
            float _e75 = norms[norm + _e72];
            float _e77 = keep(_e70 * _e75, params);
            uint _e78 = j;
            float _e80 = b_5[_e78];
            uint _e85 = j;
            float _e88 = norms[(norm + naga_div(dim, 2u)) + _e85];
            float _e90 = keep(_e80 * _e88, params);
            uint _e91 = j;
            a_6[_e91] = _e77;
            uint _e93 = j;
            b_5[_e93] = _e90;
            uint _e97 = j;
            uint pair = (4u * i_14) + _e97;
            uint _e101 = params.pairs;
            if (pair < _e101) {
                float c_3 = turns[row + pair];
                uint _e110 = params.pairs;
                float s_1 = turns[(row + _e110) + pair];
                uint _e115 = j;
                float _e118 = keep(c_3 * _e77, params);
                float _e120 = keep(s_1 * _e90, params);
                float _e122 = keep(_e118 - _e120, params);
                a_6[_e115] = _e122;
                uint _e123 = j;
                float _e126 = keep(s_1 * _e77, params);
                float _e128 = keep(c_3 * _e90, params);
                float _e130 = keep(_e126 + _e128, params);
                b_5[_e123] = _e130;
            }
        }
    }
    metal::float4 _e134 = a_6;
    metal::float4 _e135 = b_5;
    return Chunk {_e134, _e135};
}

void store_query(
    uint column_1,
    uint head_2,
    uint i_15,
    Chunk chunk,
    constant Params& params,
    device type_11& query,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e6 = params.out_stride;
    uint _e12 = params.head_dim;
    uint at_2 = ((column_1 * naga_div(_e6, 4u)) + (head_2 * naga_div(_e12, 4u))) + i_15;
    query[at_2] = chunk.a;
    uint _e24 = params.head_dim;
    query[at_2 + naga_div(_e24, 8u)] = chunk.b;
    return;
}

void add_largest(
    uint vector_2,
    Chunk chunk_1,
    threadgroup type_15& largest
) {
    metal::uint4 bits_2 = metal::max(as_type<metal::uint4>(chunk_1.a) & metal::uint4(2147483647u), as_type<metal::uint4>(chunk_1.b) & metal::uint4(2147483647u));
    uint _e22 = metal::atomic_fetch_max_explicit(&largest.inner[vector_2], metal::max(metal::max(bits_2.x, bits_2.y), metal::max(bits_2.z, bits_2.w)), metal::memory_order_relaxed);
    return;
}

float unit_of(
    uint vector_3,
    threadgroup type_15& largest
) {
    uint _e3 = metal::atomic_load_explicit(&largest.inner[vector_3], metal::memory_order_relaxed);
    float _e6 = divide(as_type<float>(_e3), 127.0);
    return _e6;
}

void store4_(
    uint start_2,
    uint at_1,
    metal::float4 x_9,
    float unit_1,
    threadgroup type_16& fresh
) {
    uint j_1 = 0u;
    uint word_2 = 0u;
    if (false) {
        metal::uint4 bits_3 = as_type<metal::uint4>(x_9);
        uint2 loop_bound_8 = uint2(4294967295u);
        bool loop_init_8 = true;
        while(true) {
            if (metal::all(loop_bound_8 == uint2(0u))) { break; }
            loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
            if (!loop_init_8) {
                uint _e21 = j_1;
                j_1 = _e21 + 1u;
            }
            loop_init_8 = false;
            uint _e8 = j_1;
            if (_e8 < 4u) {
            } else {
                break;
            }
            {
                uint _e15 = j_1;
                uint _e18 = j_1;
                fresh.inner[(start_2 + (4u * at_1)) + _e15] = bits_3[_e18];
            }
        }
        return;
    } else {
        if (true) {
            uint _e30 = to_half(x_9.x);
            uint _e32 = to_half(x_9.y);
            fresh.inner[start_2 + (2u * at_1)] = _e30 | (_e32 << 16u);
            uint _e44 = to_half(x_9.z);
            uint _e46 = to_half(x_9.w);
            fresh.inner[(start_2 + (2u * at_1)) + 1u] = _e44 | (_e46 << 16u);
            return;
        } else {
            if (unit_1 != 0.0) {
                uint _e54 = quantise4_(x_9, unit_1);
                word_2 = _e54;
            }
            uint _e58 = word_2;
            fresh.inner[start_2 + at_1] = _e58;
            return;
        }
    }
}

void store_chunk(
    uint start_3,
    uint i_16,
    Chunk chunk_2,
    float unit_2,
    constant Params& params,
    threadgroup type_16& fresh
) {
    store4_(start_3, i_16, chunk_2.a, unit_2, fresh);
    uint _e7 = params.head_dim;
    store4_(start_3, naga_div(_e7, 8u) + i_16, chunk_2.b, unit_2, fresh);
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, constant First& first [[user(fake0)]]
, device type_9 const& qkv [[user(fake0)]]
, device type_10 const& norms [[user(fake0)]]
, device type_10 const& turns [[user(fake0)]]
, device type_11& query [[user(fake0)]]
, threadgroup type_13& squares
, threadgroup type_15& largest
, threadgroup type_16& fresh
, device type_17 const& columns [[user(fake0)]]
, device type_9& kv [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local == 0u) {
        for (int __i0 = 0; __i0 < 1; __i0++) {
            metal::atomic_store_explicit(&squares.inner[__i0], 0, metal::memory_order_relaxed);
        }
        for (int __i0 = 0; __i0 < 1; __i0++) {
            metal::atomic_store_explicit(&largest.inner[__i0], 0, metal::memory_order_relaxed);
        }
        fresh = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint head = {};
    uint kind = QUERY;
    uint i = {};
    uint i_1 = {};
    float unit = 0.0;
    uint i_2 = {};
    uint i_3 = {};
    uint i_4 = {};
    bool local_1 = {};
    uint _e4 = first.column;
    uint column_2 = _e4 + group.y;
    uint position_2 = columns[column_2].position;
    uint dim_1 = params.head_dim;
    uint chunks = naga_div(dim_1, 8u);
    head = group.x;
    uint _e20 = head;
    uint _e23 = params.heads;
    if (_e20 >= _e23) {
        uint _e25 = head;
        uint _e28 = params.heads;
        head = _e25 - _e28;
        kind = KEY;
        uint _e31 = head;
        uint _e34 = params.kv_heads;
        if (_e31 >= _e34) {
            uint _e36 = head;
            uint _e39 = params.kv_heads;
            head = _e36 - _e39;
            kind = VALUE;
        }
    }
    uint _e42 = kind;
    uint _e43 = head;
    uint _e44 = codes_of(_e42, column_2, _e43, params);
    if (local == 0u) {
        metal::atomic_store_explicit(&squares.inner[0], 0, metal::memory_order_relaxed);
        metal::atomic_store_explicit(&largest.inner[0], 0u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    i = local;
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e58 = i;
            i = _e58 + THREADS;
        }
        loop_init_9 = false;
        uint _e54 = i;
        if (_e54 < chunks) {
        } else {
            break;
        }
        {
            uint _e57 = i;
            add_squares(0u, _e44, _e57, params, qkv, squares, _buffer_sizes);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e61 = kind;
    if (_e61 == QUERY) {
        i_1 = local;
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e73 = i_1;
                i_1 = _e73 + THREADS;
            }
            loop_init_10 = false;
            uint _e65 = i_1;
            if (_e65 < chunks) {
            } else {
                break;
            }
            {
                uint _e67 = head;
                uint _e68 = i_1;
                uint _e70 = kind;
                uint _e71 = i_1;
                Chunk _e72 = chunk_of(0u, _e70, _e44, _e71, position_2, params, qkv, norms, turns, squares, _buffer_sizes);
                store_query(column_2, _e67, _e68, _e72, params, query, _buffer_sizes);
            }
        }
        return;
    }
    if (false) {
        i_2 = local;
        uint2 loop_bound_11 = uint2(4294967295u);
        bool loop_init_11 = true;
        while(true) {
            if (metal::all(loop_bound_11 == uint2(0u))) { break; }
            loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
            if (!loop_init_11) {
                uint _e87 = i_2;
                i_2 = _e87 + THREADS;
            }
            loop_init_11 = false;
            uint _e80 = i_2;
            if (_e80 < chunks) {
            } else {
                break;
            }
            {
                uint _e84 = kind;
                uint _e85 = i_2;
                Chunk _e86 = chunk_of(0u, _e84, _e44, _e85, position_2, params, qkv, norms, turns, squares, _buffer_sizes);
                add_largest(0u, _e86, largest);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        float _e91 = unit_of(0u, largest);
        unit = _e91;
    }
    i_3 = local;
    uint2 loop_bound_12 = uint2(4294967295u);
    bool loop_init_12 = true;
    while(true) {
        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
        if (!loop_init_12) {
            uint _e102 = i_3;
            i_3 = _e102 + THREADS;
        }
        loop_init_12 = false;
        uint _e93 = i_3;
        if (_e93 < chunks) {
        } else {
            break;
        }
        {
            uint _e96 = i_3;
            uint _e98 = kind;
            uint _e99 = i_3;
            Chunk _e100 = chunk_of(0u, _e98, _e44, _e99, position_2, params, qkv, norms, turns, squares, _buffer_sizes);
            float _e101 = unit;
            store_chunk(0u, _e96, _e100, _e101, params, fresh);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e105 = head;
    uint _e108 = params.slots;
    uint _e110 = slot_of(position_2, params);
    uint row_1 = (_e105 * _e108) + _e110;
    uint words = dim_1 >> FORMAT;
    uint _e117 = params.kv_values;
    uint _e118 = kind;
    uint at_3 = ((_e118 == VALUE) ? _e117 : 0u) + (row_1 * words);
    i_4 = local;
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e135 = i_4;
            i_4 = _e135 + THREADS;
        }
        loop_init_13 = false;
        uint _e125 = i_4;
        if (_e125 < words) {
        } else {
            break;
        }
        {
            uint _e128 = i_4;
            uint _e132 = i_4;
            uint _e134 = fresh.inner[_e132];
            kv[at_3 + _e128] = _e134;
        }
    }
    if (false) {
        local_1 = local == 0u;
    } else {
        local_1 = false;
    }
    bool _e144 = local_1;
    if (_e144) {
        uint _e148 = params.kv_key_scales;
        uint _e151 = params.kv_value_scales;
        uint _e152 = kind;
        float _e158 = unit;
        kv[((_e152 == VALUE) ? _e151 : _e148) + row_1] = as_type<uint>(_e158);
        return;
    } else {
        return;
    }
}
