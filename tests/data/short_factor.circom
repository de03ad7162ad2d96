pragma circom 2.1.0;

// Proves that a secret factor has 16 bits, and that its square and its product with a public number
// are as published.
template Bits(n) {
    signal input number;
    signal output bits[n];
    var sum = 0;
    for (var i = 0; i < n; i++) {
        bits[i] <-- (number >> i) & 1;
        bits[i] * (bits[i] - 1) === 0;
        sum += bits[i] * (1 << i);
    }
    sum === number;
}

template ShortFactor(n) {
    signal input factor;
    signal input other;
    signal output square;
    signal output product;
    component bits = Bits(n);
    bits.number <== factor;
    square <== factor * factor;
    product <== factor * other;
}

component main { public [other] } = ShortFactor(16);
